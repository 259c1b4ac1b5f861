// Helpers for the tests of tasks: replies, files, metrics of given answers.
#pragma once

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/core/task.h"

namespace calyrex::eval::test {

inline Reply says(std::string text) { return {.text = std::move(text)}; }

inline std::vector<Reply> replies_of(const std::vector<std::string>& texts) {
  std::vector<Reply> replies;
  for (const std::string& text : texts) replies.push_back(says(text));
  return replies;
}

inline const GenerateAsk& generate(const std::vector<Ask>& asks, size_t index = 0) {
  return std::get<GenerateAsk>(asks.at(index));
}

/// Asks a sample to its end, `answer` replying to each generate ask; scores get two tokens of -1 and -3.
inline std::vector<Reply> play(const Sample& sample,
                               const std::function<std::string(const GenerateAsk&)>& answer) {
  std::vector<Reply> replies;
  while (true) {
    const std::vector<Ask> asks = sample.next(replies);
    if (asks.empty()) return replies;
    std::vector<Reply> step;
    for (const Ask& ask : asks) {
      if (const auto* generate = std::get_if<GenerateAsk>(&ask)) {
        step.push_back(says(answer(*generate)));
      } else {
        step.push_back({.text = {}, .logprobs = {-1.0, -3.0}});
      }
    }
    replies.insert(replies.end(), step.begin(), step.end());
    if (replies.size() > 1000) throw std::runtime_error("endless sample " + sample.id());
  }
}

/// Verdicts and metrics when every sample is answered by `answer`.
inline Metrics metrics_of(const Task& task, const Samples& samples,
                          const std::function<std::string(const GenerateAsk&)>& answer) {
  std::vector<Graded> graded;
  for (const auto& sample : samples) {
    Verdict verdict = sample->grade(play(*sample, answer));
    if (!verdict.ungraded) graded.push_back({.sample = sample.get(), .verdict = std::move(verdict)});
  }
  return task.metrics(graded);
}

inline std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

inline Error error_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "nothing was thrown");
}

inline LoadOptions sample_options(Form form = Form::kSystem) {
  LoadOptions options;
  options.sample = true;
  options.form = form;
  return options;
}

inline LoadOptions file_options(const std::string& path) {
  LoadOptions options;
  options.data = path;
  options.form = Form::kSystem;
  return options;
}

}  // namespace calyrex::eval::test
