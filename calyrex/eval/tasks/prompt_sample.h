// A sample that asks once and judges the one answer.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "calyrex/eval/core/task.h"

namespace calyrex::eval {

class PromptSample final : public Sample {
 public:
  /// Judges the text of an answer; must not throw for what it holds.
  using Grader = std::function<Verdict(const std::string& answer)>;

  PromptSample(std::string id, GenerateAsk ask, Grader grader)
      : id_(std::move(id)), ask_(std::move(ask)), grader_(std::move(grader)) {}

  std::string id() const override { return id_; }
  Json prompt() const override { return text::messages_to_json(ask_.messages); }
  std::vector<Ask> next(std::span<const Reply> replies) const override {
    return replies.empty() ? std::vector<Ask>{ask_} : std::vector<Ask>{};
  }
  Verdict grade(std::span<const Reply> replies) const override {
    if (replies.empty()) return {.ungraded = "no answer"};
    return grader_(replies.front().text);
  }

 private:
  std::string id_;
  GenerateAsk ask_;
  Grader grader_;
};

}  // namespace calyrex::eval
