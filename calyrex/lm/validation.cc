#include "calyrex/lm/validation.h"

#include <cmath>

#include "calyrex/base/error.h"

namespace calyrex::lm {
namespace {

constexpr size_t kMaxStopStrings = 64;
constexpr size_t kMaxStopBytes = 4096;
constexpr int64_t kMaxTopLogprobs = 20;

[[noreturn]] void refuse(std::string_view field, std::string_view expected, double value) {
  fail(ErrorCode::kInvalidArgument, "{} must be {}, got {}", field, expected, value);
}

}  // namespace

void validate_sampling(const Sampling& sampling, int64_t vocab_size) {
  // Written so that NaN is refused as well.
  if (!(sampling.temperature >= 0.0 && sampling.temperature <= 100.0)) {
    refuse("temperature", "between 0 and 100", sampling.temperature);
  }
  if (sampling.top_k < 0) refuse("top_k", "0 (off) or more", static_cast<double>(sampling.top_k));
  if (!(sampling.top_p > 0.0 && sampling.top_p <= 1.0))
    refuse("top_p", "above 0 and at most 1", sampling.top_p);
  if (!(sampling.min_p >= 0.0 && sampling.min_p <= 1.0)) refuse("min_p", "between 0 and 1", sampling.min_p);
  if (!(sampling.repetition_penalty > 0.0 && sampling.repetition_penalty <= 100.0)) {
    refuse("repetition_penalty", "above 0 and at most 100", sampling.repetition_penalty);
  }
  for (const auto& [id, bias] : sampling.logit_bias) {
    if (id < 0 || id >= vocab_size) refuse("a token of logit_bias", "in the vocabulary", id);
    if (!(std::abs(bias) <= 1e4)) refuse("logit_bias", "between -10000 and 10000", bias);
  }
}

void validate_scale(const AdapterChoice& adapter) {
  if (!std::isfinite(adapter.scale)) refuse("the adapter's scale", "a finite number", adapter.scale);
}

void validate_score_from(int64_t score_from, int64_t length) {
  if (score_from < 1 || score_from >= length) {
    fail(ErrorCode::kInvalidArgument,
         "scoring would begin at token {} of {}, and a scored token needs another before it; give a longer "
         "prompt, or one that ends where a token ends",
         score_from, length);
  }
}

void validate_length(int64_t length, int64_t max_positions) {
  if (length > max_positions) {
    fail(ErrorCode::kInvalidArgument,
         "the request needs {} tokens, more than the model's context of {}; shorten the messages (in a chat, "
         "/reset forgets them)",
         length, max_positions);
  }
}

void validate_request(const GenerateRequest& request, int64_t vocab_size) {
  validate_sampling(request.sampling, vocab_size);
  validate_scale(request.adapter);
  if (request.max_new_tokens < 1) {
    refuse("max_new_tokens", "at least 1", static_cast<double>(request.max_new_tokens));
  }
  if (request.top_logprobs < 0 || request.top_logprobs > kMaxTopLogprobs) {
    refuse("top_logprobs", "between 0 and 20", static_cast<double>(request.top_logprobs));
  }
  if (request.stop.size() > kMaxStopStrings) {
    fail(ErrorCode::kInvalidArgument, "at most {} stop strings, got {}", kMaxStopStrings,
         request.stop.size());
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty()) fail(ErrorCode::kInvalidArgument, "a stop string must not be empty");
    if (stop.size() > kMaxStopBytes) {
      fail(ErrorCode::kInvalidArgument, "a stop string has {} bytes; at most {}", stop.size(), kMaxStopBytes);
    }
  }
}

void validate_token_ids(const std::vector<TokenId>& ids, const TokenSpans& spans, int64_t vocab_size) {
  if (ids.empty()) fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      fail(ErrorCode::kInvalidArgument, "token id {} at position {} is not in the vocabulary of {}", ids[i],
           i, vocab_size);
    }
  }
  int64_t last_end = 0;
  for (const TokenSpan& span : spans) {
    if (span.begin < last_end || span.end <= span.begin || span.end > static_cast<int64_t>(ids.size())) {
      fail(ErrorCode::kInvalidArgument,
           "system span [{}, {}) must lie in the {} tokens, after the one before it, and hold a token",
           span.begin, span.end, ids.size());
    }
    last_end = span.end;
  }
}

}  // namespace calyrex::lm
