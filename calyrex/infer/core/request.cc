#include "calyrex/infer/core/request.h"

#include <algorithm>
#include <utility>

#include "calyrex/base/log.h"

namespace calyrex::infer {
namespace {

lm::Usage count_prompt(const lm::Prompt& prompt) {
  lm::Usage usage;
  usage.prompt_tokens = static_cast<int64_t>(prompt.token_ids.size());
  for (const TokenSpan& span : prompt.system_spans) usage.span_tokens += span.length();
  return usage;
}

}  // namespace

Request::Request(lm::RequestId id, Setup setup)
    : sampler_(setup.request.sampling, setup.seed, setup.request.top_logprobs),
      decoder_(setup.tokenizer),
      stop_(setup.request.stop),
      handler_(std::move(setup.handler)),
      stop_ids_(std::move(setup.stop_ids)),
      max_tokens_(setup.max_tokens),
      usage_(count_prompt(setup.prompt)) {
  sequence_.id = id;
  sequence_.token_ids = std::move(setup.prompt.token_ids);
  sequence_.system_spans = std::move(setup.prompt.system_spans);
  sequence_.adapter = std::move(setup.adapter);
  sequence_.scale = setup.request.adapter.scale;
}

void Request::sample(const LogitsRow& row) {
  // Runs inside a parallel region, which no exception may leave.
  try {
    sampled_ = sampler_.sample(row, sequence_.token_ids);
  } catch (...) {
    sampling_error_ = std::current_exception();
  }
}

std::optional<Request::End> Request::accept() {
  if (sampling_error_ != nullptr) return End{.error = sampling_error_};
  try {
    const std::optional<lm::FinishReason> reason = advance();
    return reason ? std::optional(End{.reason = *reason, .error = nullptr}) : std::nullopt;
  } catch (...) {
    return End{.reason = lm::FinishReason::kCancelled, .error = std::current_exception()};
  }
}

std::optional<lm::FinishReason> Request::advance() {
  if (usage_.completion_tokens++ == 0) usage_.cached_tokens = sequence_.reused;
  sequence_.token_ids.push_back(sampled_.id);
  lm::TokenEvent event{
      .id = sampled_.id, .text = {}, .logprob = sampled_.logprob, .top = std::move(sampled_.top)};
  const bool ends = std::find(stop_ids_.begin(), stop_ids_.end(), sampled_.id) != stop_ids_.end();
  if (!ends) event.text = stop_.push(decoder_.push(sampled_.id));
  if (handler_.on_token) handler_.on_token(event);
  if (ends || stop_.matched()) return lm::FinishReason::kStop;
  if (sequence_.length() >= max_tokens_) return lm::FinishReason::kLength;
  return std::nullopt;
}

void Request::finish(const End& end) {
  if (!handler_.on_finish) return;
  try {
    lm::FinishEvent event{
        .reason = end.reason, .text = stop_.push(decoder_.finish()), .usage = usage_, .error = end.error};
    event.text += stop_.finish();
    // A stop string may have been completed by the last half character's replacement.
    if (stop_.matched() && end.reason == lm::FinishReason::kLength) event.reason = lm::FinishReason::kStop;
    handler_.on_finish(event);
  } catch (const std::exception& failure) {
    log_warning("request {}: its end could not be delivered: {}", sequence_.id, failure.what());
  }
}

}  // namespace calyrex::infer
