// Choosing the next token from a row of logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "calyrex/base/random.h"
#include "calyrex/base/token.h"
#include "calyrex/lm/language_model.h"

namespace calyrex::infer {

/// Logits of the next token, with what whoever computed them knows of the whole row.
struct LogitsRow {
  std::span<const float> logits;  // [vocab_size]
  TokenId best = 0;               // the likeliest token, the lower id on a tie
  double log_sum_exp = 0.0;
};

struct SampledToken {
  TokenId id = 0;
  double logprob = 0.0;               // under the model's own distribution, before any setting changed it
  std::vector<lm::TokenLogprob> top;  // the likeliest under the same distribution, best first
};

/// One request's sampling: settings and its own random stream, so that neighbours in the batch do not matter.
/// The order: repetition penalty (CTRL, Keskar et al., 2019: on every token of prompt and answer), logit
/// bias, temperature, top-k, top-p (of what top-k left), min-p (relative to the likeliest). One random number
/// a token.
class Sampler {
 public:
  Sampler(lm::Sampling sampling, uint64_t seed, int64_t top_logprobs);

  /// `context`: prompt and answer so far. Throws kCorruptData when the row is not finite.
  SampledToken sample(const LogitsRow& row, std::span<const TokenId> context);

 private:
  struct Candidate {
    TokenId id;
    float score;
  };

  TokenId choose(const LogitsRow& row, std::span<const TokenId> context);
  TokenId draw(std::span<const float> scores);
  TokenId draw_filtered(std::span<const float> scores);

  lm::Sampling sampling_;
  int64_t top_logprobs_;
  RandomStream random_;
  std::vector<float> adjusted_;        // scratch: scores after penalty and bias
  std::vector<Candidate> candidates_;  // scratch
  std::vector<double> weights_;        // scratch
};

}  // namespace calyrex::infer
