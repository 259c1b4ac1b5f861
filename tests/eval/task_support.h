// Folders, replies and errors for the tests of tasks.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/core/task.h"
#include "calyrex/eval/tasks/registry.h"

namespace calyrex::eval::test {

class DataFolder {
 public:
  DataFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "calyrex-tasks-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~DataFolder() { std::filesystem::remove_all(path_); }
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
  }

 private:
  std::filesystem::path path_;
};

inline LoadOptions options(const std::filesystem::path& data, Form form) {
  return {.data = data, .form = form};
}

inline LoadOptions own_rows(Form form) { return {.sample = true, .form = form}; }

inline Samples load(std::string_view task, const LoadOptions& load_options) {
  return find_task(task).load(load_options);
}

/// What loading throws, "no error" when nothing.
inline std::string load_error(std::string_view task, const LoadOptions& load_options) {
  try {
    load(task, load_options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline Verdict grade(const Sample& sample, const std::vector<std::string>& answers) {
  std::vector<Reply> replies;
  for (const std::string& answer : answers) replies.push_back({.text = answer});
  return sample.grade(replies);
}

/// The first ask of a sample that asks for an answer.
inline GenerateAsk first_ask(const Sample& sample) { return std::get<GenerateAsk>(sample.next({}).at(0)); }

inline Metrics metrics_of(std::string_view task, const Samples& samples,
                          const std::vector<std::string>& answers) {
  std::vector<Graded> graded;
  for (size_t i = 0; i < samples.size(); ++i) {
    graded.push_back({.sample = samples[i].get(), .verdict = grade(*samples[i], {answers.at(i)})});
  }
  return find_task(task).metrics(graded);
}

}  // namespace calyrex::eval::test
