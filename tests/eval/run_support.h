// A task, samples and folders for the runner's tests.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <stdlib.h>

#include "calyrex/eval/core/metrics.h"
#include "calyrex/eval/run/runner.h"

namespace calyrex::eval::test {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "calyrex-eval-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  fs::path operator/(const std::string& name) const { return path_ / name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

inline std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline std::vector<Json> read_lines(const fs::path& path) {
  std::vector<Json> lines;
  std::istringstream text(read_text(path));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

inline text::Message user(std::string content) { return {.role = "user", .content = std::move(content)}; }

/// A sample whose steps and verdict a test gives.
class ScriptedSample final : public Sample {
 public:
  using Next = std::function<std::vector<Ask>(std::span<const Reply>)>;
  using Grade = std::function<Verdict(std::span<const Reply>)>;
  ScriptedSample(std::string id, Json prompt, Next next, Grade grade)
      : id_(std::move(id)), prompt_(std::move(prompt)), next_(std::move(next)), grade_(std::move(grade)) {}

  std::string id() const override { return id_; }
  Json prompt() const override { return prompt_; }
  std::vector<Ask> next(std::span<const Reply> replies) const override { return next_(replies); }
  Verdict grade(std::span<const Reply> replies) const override { return grade_(replies); }

 private:
  std::string id_;
  Json prompt_;
  Next next_;
  Grade grade_;
};

/// Asks `question` once; passes when the answer holds an 'x'.
inline std::unique_ptr<Sample> question_sample(const std::string& id, const std::string& question,
                                               int64_t max_new_tokens = 64) {
  return std::make_unique<ScriptedSample>(
      id, question,
      [=](std::span<const Reply> replies) -> std::vector<Ask> {
        if (!replies.empty()) return {};
        GenerateAsk ask;
        ask.messages = {user(question)};
        ask.max_new_tokens = max_new_tokens;
        return {ask};
      },
      [](std::span<const Reply> replies) {
        Verdict verdict;
        verdict.scores["acc"] = replies[0].text.find('x') != std::string::npos ? 1.0 : 0.0;
        verdict.detail["length"] = replies[0].text.size();
        return verdict;
      });
}

/// A task over samples that a function makes.
class ScriptedTask final : public Task {
 public:
  ScriptedTask(std::string name, std::function<Samples()> make) : make_(std::move(make)) {
    info_.name = std::move(name);
    info_.forms = {Form::kUser};
    info_.scorer_version = "1";
    info_.headline = {"acc"};
  }
  const TaskInfo& info() const override { return info_; }
  Samples load(const LoadOptions&) const override { return make_(); }
  Metrics metrics(std::span<const Graded> graded) const override {
    return {{"acc", share_of(graded, "acc")}};
  }

 private:
  TaskInfo info_;
  std::function<Samples()> make_;
};

/// `count` questions, every third of which is answered rightly by a model that repeats the question.
inline ScriptedTask questions_task(int count, const std::string& name = "questions") {
  return ScriptedTask(name, [count] {
    Samples samples;
    for (int i = 0; i < count; ++i) {
      samples.push_back(question_sample(
          std::to_string(i), std::string(1 + i % 7, 'a') + (i % 3 == 0 ? "x" : "y") + std::to_string(i)));
    }
    return samples;
  });
}

inline Subject base_subject() {
  Subject subject;
  subject.identity["model"] = "scripted";
  subject.description["model"] = "scripted";
  subject.description["adapter"] = nullptr;
  subject.description["subject"] = "base";
  return subject;
}

inline std::vector<LoadedTask> load(const Task& task) {
  std::vector<LoadedTask> tasks;
  tasks.push_back(load_task(task, {}));
  return tasks;
}

/// Runs one task with the base model.
inline Finished run_one(const Task& task, RunOptions options) {
  return std::move(run_tasks(load(task), {base_subject()}, options).at(0));
}

}  // namespace calyrex::eval::test
