#include "calyrex/eval/run/sample_work.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"

namespace calyrex::eval {
namespace {

std::optional<std::string> too_long(int64_t tokens, int64_t context) {
  if (tokens <= context) return std::nullopt;
  return fmt::format("needs {} tokens; the model's context has {}", tokens, context);
}

int64_t length(const lm::Prompt& prompt) { return static_cast<int64_t>(prompt.token_ids.size()); }

/// Tokens of a score request that the model refused, about: its two texts apart.
int64_t estimated_length(const lm::ScoreRequest& request, const lm::LanguageModel& model) {
  lm::Prompt completion;
  completion.text = request.completion;
  return length(model.tokenize(request.prompt, request.adapter)) +
         length(model.tokenize(completion, request.adapter));
}

}  // namespace

Outcome ungraded_outcome(std::string reason) {
  Outcome outcome;
  outcome.verdict.ungraded = std::move(reason);
  return outcome;
}

bool SampleWork::begin_step(std::optional<int64_t> max_new_tokens) {
  for (size_t i = 0; i < asks_.size(); ++i) {
    kinds_.push_back(ask_kind(asks_[i]));
    replies_.push_back(std::move(*step_replies_[i]));
  }
  asks_ = sample_.next(replies_);
  for (Ask& ask : asks_) {
    auto* generate = std::get_if<GenerateAsk>(&ask);
    if (generate == nullptr || generate->recipient == Recipient::kJudge || !max_new_tokens) continue;
    generate->max_new_tokens = std::min(generate->max_new_tokens, *max_new_tokens);
  }
  missing_ = asks_.size();
  step_replies_.assign(asks_.size(), std::nullopt);
  prompts_.assign(asks_.size(), std::nullopt);
  scores_.assign(asks_.size(), std::nullopt);
  return !asks_.empty();
}

void SampleWork::set_reply(size_t index, Reply reply) {
  step_replies_[index] = std::move(reply);
  --missing_;
  if (ask_kind(asks_[index]) == AskKind::kAnswer) ++num_answers_;
}

std::optional<std::string> SampleWork::tokenize(size_t index, const lm::LanguageModel& model,
                                                const lm::AdapterChoice& adapter) {
  const int64_t context = model.info().max_positions;
  if (const auto* generate = std::get_if<GenerateAsk>(&asks_[index])) {
    prompts_[index] = model.tokenize(to_request(*generate, adapter, 0).prompt, adapter);
    return too_long(length(*prompts_[index]) + generate->max_new_tokens, context);
  }
  const lm::ScoreRequest request = to_request(std::get<ScoreAsk>(asks_[index]), adapter);
  try {
    scores_[index] = model.tokenize(request);
    return std::nullopt;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    if (auto reason = too_long(estimated_length(request, model), context)) return reason;
    throw;
  }
}

lm::GenerateRequest SampleWork::generate_request(size_t index, const lm::AdapterChoice& adapter,
                                                 uint64_t seed) {
  lm::GenerateRequest request = to_request(std::get<GenerateAsk>(asks_[index]), adapter, seed);
  if (prompts_[index]) request.prompt = std::move(*prompts_[index]);
  return request;
}

lm::ScoreRequest SampleWork::score_request(size_t index, const lm::AdapterChoice& adapter) {
  if (scores_[index]) return std::move(*scores_[index]);
  return to_request(std::get<ScoreAsk>(asks_[index]), adapter);
}

Outcome SampleWork::grade() const {
  Outcome outcome;
  outcome.verdict = sample_.grade(replies_);
  for (size_t i = 0; i < replies_.size(); ++i) {
    outcome.truncated = outcome.truncated || (kinds_[i] == AskKind::kAnswer && replies_[i].truncated);
  }
  return outcome;
}

Json SampleWork::to_json() const {
  Json answers = Json::array();
  Json choices = Json::array();
  Json judgements = Json::array();
  for (size_t i = 0; i < replies_.size(); ++i) {
    const Reply& reply = replies_[i];
    if (kinds_[i] == AskKind::kScore) {
      const double sum = std::accumulate(reply.logprobs.begin(), reply.logprobs.end(), 0.0);
      choices.push_back({{"logprob", sum}, {"tokens", reply.logprobs.size()}, {"greedy", reply.greedy}});
    } else {
      (kinds_[i] == AskKind::kAnswer ? answers : judgements).push_back(reply.text);
    }
  }
  Json json;
  json["id"] = id();
  json["prompt"] = sample_.prompt();
  json["response"] = answers.size() == 1 ? answers[0] : answers.empty() ? Json() : answers;
  if (!choices.empty()) json["choices"] = std::move(choices);
  if (!judgements.empty()) json["judgements"] = std::move(judgements);
  return json;
}

}  // namespace calyrex::eval
