// What every language model refuses in the same words.
#pragma once

#include <string>
#include <vector>

#include "calyrex/lm/language_model.h"

namespace calyrex::lm {

/// Throws kInvalidArgument naming the field when a value is out of its range.
void validate_sampling(const Sampling& sampling, int64_t vocab_size);

/// Checks a request's own values: sampling, max_new_tokens, stop strings, top_logprobs, adapter scale.
void validate_request(const GenerateRequest& request, int64_t vocab_size);

/// Checks a prompt's ids against the vocabulary, and its spans: inside, sorted, disjoint, none empty.
void validate_token_ids(const std::vector<TokenId>& ids, const TokenSpans& spans, int64_t vocab_size);

/// The first scored token needs one before it: 1 <= score_from < length, or kInvalidArgument.
void validate_score_from(int64_t score_from, int64_t length);

/// A sequence (with room for one token of answer) longer than the context: kInvalidArgument.
void validate_length(int64_t length, int64_t max_positions);

/// A scale that is not finite throws kInvalidArgument.
void validate_scale(const AdapterChoice& adapter);

}  // namespace calyrex::lm
