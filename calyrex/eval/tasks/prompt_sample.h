// Samples that ask once and judge the one answer.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "calyrex/eval/core/task.h"

namespace calyrex::eval {

/// One question; what its answer is worth says the class derived from it.
class AskOnceSample : public Sample {
 public:
  AskOnceSample(std::string id, GenerateAsk ask) : id_(std::move(id)), ask_(std::move(ask)) {}

  std::string id() const final { return id_; }
  Json prompt() const final { return text::messages_to_json(ask_.messages); }
  std::vector<Ask> next(std::span<const Reply> replies) const final {
    return replies.empty() ? std::vector<Ask>{ask_} : std::vector<Ask>{};
  }

 private:
  std::string id_;
  GenerateAsk ask_;
};

/// One question whose answer a function judges.
class PromptSample final : public AskOnceSample {
 public:
  /// Judges the text of an answer; must not throw for what it holds.
  using Grader = std::function<Verdict(const std::string& answer)>;

  PromptSample(std::string id, GenerateAsk ask, Grader grader)
      : AskOnceSample(std::move(id), std::move(ask)), grader_(std::move(grader)) {}

  Verdict grade(std::span<const Reply> replies) const override {
    if (replies.empty()) return {.ungraded = "no answer"};
    return grader_(replies.front().text);
  }

 private:
  Grader grader_;
};

}  // namespace calyrex::eval
