// One sample with one subject on its way: replies so far, and the asks of the current step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/eval/core/task.h"
#include "calyrex/eval/run/ask.h"
#include "calyrex/eval/run/run_folder.h"
#include "calyrex/lm/language_model.h"

namespace calyrex::eval {

Outcome ungraded_outcome(std::string reason);

class SampleWork {
 public:
  SampleWork(size_t run, size_t sample_index, const Sample& sample)
      : run_(run), sample_index_(sample_index), sample_(sample) {}

  size_t run() const { return run_; }
  size_t sample_index() const { return sample_index_; }
  std::string id() const { return sample_.id(); }
  size_t num_replies() const { return replies_.size(); }
  /// Answers of the model so far, with those of this step.
  size_t num_answers() const { return num_answers_; }

  std::vector<Ask> first_asks() const { return sample_.next({}); }

  /// Takes the replies of the step that ended and asks what follows; false when the sample is complete. No
  /// answer is longer than `max_new_tokens`.
  bool begin_step(std::optional<int64_t> max_new_tokens);
  const std::vector<Ask>& asks() const { return asks_; }
  void set_reply(size_t index, Reply reply);
  bool step_is_complete() const { return missing_ == 0; }

  /// Works out an ask's tokens. Returns why it does not fit into the model's context, if so. Throws what the
  /// model throws for a chat that it refuses.
  std::optional<std::string> tokenize(size_t index, const lm::LanguageModel& model,
                                      const lm::AdapterChoice& adapter);
  /// By tokens when they were worked out.
  lm::GenerateRequest generate_request(size_t index, const lm::AdapterChoice& adapter, uint64_t seed);
  lm::ScoreRequest score_request(size_t index, const lm::AdapterChoice& adapter);

  Outcome grade() const;
  void mark_ended() { ended_ = true; }
  bool ended() const { return ended_; }

  /// {"id", "prompt", "response"}: one answer as a string, several as a list; scores as "choices", the
  /// judge's answers as "judgements".
  Json to_json() const;

 private:
  size_t run_;
  size_t sample_index_;
  const Sample& sample_;
  std::vector<Reply> replies_;
  std::vector<AskKind> kinds_;  // of replies_
  std::vector<Ask> asks_;
  std::vector<std::optional<Reply>> step_replies_;
  std::vector<std::optional<lm::Prompt>> prompts_;       // of generate asks, by tokens
  std::vector<std::optional<lm::ScoreRequest>> scores_;  // of score asks, by tokens
  size_t missing_ = 0;
  size_t num_answers_ = 0;
  bool ended_ = false;
};

}  // namespace calyrex::eval
