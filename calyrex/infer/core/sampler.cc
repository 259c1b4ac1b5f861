#include "calyrex/infer/core/sampler.h"

#include <algorithm>
#include <cmath>

#include "calyrex/base/error.h"

namespace calyrex::infer {
namespace {

/// The n likeliest tokens, best first, the lower id first on ties.
std::vector<lm::TokenLogprob> likeliest(const LogitsRow& row, int64_t count) {
  const auto better = [](const lm::TokenLogprob& a, const lm::TokenLogprob& b) {
    return a.logprob > b.logprob || (a.logprob == b.logprob && a.id < b.id);
  };
  std::vector<lm::TokenLogprob> top;  // a heap whose front is the worst kept
  for (size_t id = 0; id < row.logits.size() && count > 0; ++id) {
    const lm::TokenLogprob token{static_cast<TokenId>(id), row.logits[id] - row.log_sum_exp};
    if (static_cast<int64_t>(top.size()) == count) {
      if (!better(token, top.front())) continue;
      std::pop_heap(top.begin(), top.end(), better);
      top.pop_back();
    }
    top.push_back(token);
    std::push_heap(top.begin(), top.end(), better);
  }
  std::sort_heap(top.begin(), top.end(), better);
  return top;
}

}  // namespace

Sampler::Sampler(lm::Sampling sampling, uint64_t seed, int64_t top_logprobs)
    : sampling_(std::move(sampling)), top_logprobs_(top_logprobs), random_(seed, "sampling") {}

SampledToken Sampler::sample(const LogitsRow& row, std::span<const TokenId> context) {
  if (!std::isfinite(row.log_sum_exp)) {
    fail(ErrorCode::kCorruptData,
         "the logits are not finite: weights of the model or of the adapter are damaged, or the adapter's "
         "scale "
         "is too large; load the files anew, or lower the scale");
  }
  SampledToken token;
  token.id = choose(row, context);
  token.logprob = row.logits[static_cast<size_t>(token.id)] - row.log_sum_exp;
  token.top = likeliest(row, top_logprobs_);
  return token;
}

TokenId Sampler::choose(const LogitsRow& row, std::span<const TokenId> context) {
  const bool adjust = sampling_.repetition_penalty != 1.0 || !sampling_.logit_bias.empty();
  std::span<const float> scores = row.logits;
  if (adjust) {
    adjusted_.assign(row.logits.begin(), row.logits.end());
    const auto penalty = static_cast<float>(sampling_.repetition_penalty);
    // From the row, not from the copy: a token that occurs twice is penalised once.
    for (const TokenId id : context) {
      const float logit = row.logits[static_cast<size_t>(id)];
      adjusted_[static_cast<size_t>(id)] = logit > 0.0f ? logit / penalty : logit * penalty;
    }
    for (const auto& [id, bias] : sampling_.logit_bias) {
      adjusted_[static_cast<size_t>(id)] += static_cast<float>(bias);
    }
    scores = adjusted_;
  }
  if (sampling_.temperature == 0.0) {
    if (!adjust) return row.best;
    return static_cast<TokenId>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }
  const bool filtered = sampling_.top_k > 0 || sampling_.top_p < 1.0 || sampling_.min_p > 0.0;
  return filtered ? draw_filtered(scores) : draw(scores);
}

/// A token with probability softmax(scores / temperature).
TokenId Sampler::draw(std::span<const float> scores) {
  const float highest = *std::max_element(scores.begin(), scores.end());
  const auto scale = static_cast<float>(1.0 / sampling_.temperature);
  weights_.resize(scores.size());
  double total = 0.0;
  for (size_t i = 0; i < scores.size(); ++i) {
    total += std::exp((scores[i] - highest) * scale);
    weights_[i] = total;
  }
  const auto chosen = std::upper_bound(weights_.begin(), weights_.end(), random_.uniform() * total);
  return static_cast<TokenId>(
      std::min<ptrdiff_t>(chosen - weights_.begin(), static_cast<ptrdiff_t>(scores.size()) - 1));
}

TokenId Sampler::draw_filtered(std::span<const float> scores) {
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.score > b.score || (a.score == b.score && a.id < b.id);
  };
  const float highest = *std::max_element(scores.begin(), scores.end());
  const double temperature = sampling_.temperature;
  // min-p asks exp((score - highest) / temperature) >= min_p.
  const double floor = sampling_.min_p > 0.0 ? highest + temperature * std::log(sampling_.min_p)
                                             : -std::numeric_limits<double>::infinity();
  candidates_.clear();
  for (size_t id = 0; id < scores.size(); ++id) {
    candidates_.push_back({static_cast<TokenId>(id), scores[id]});
  }
  auto keep = static_cast<ptrdiff_t>(candidates_.size());
  if (sampling_.top_k > 0 && sampling_.top_k < keep) {
    keep = static_cast<ptrdiff_t>(sampling_.top_k);
    std::nth_element(candidates_.begin(), candidates_.begin() + keep - 1, candidates_.end(), better);
  }
  double total = 0.0;
  for (ptrdiff_t i = 0; i < keep; ++i) total += std::exp((candidates_[i].score - highest) / temperature);
  // Sorted piece by piece: the tokens that top-p keeps are few beside the vocabulary.
  weights_.clear();
  double mass = 0.0;
  ptrdiff_t sorted = 0;
  for (ptrdiff_t i = 0; i < keep; ++i) {
    if (i == sorted) {
      sorted = std::min(keep, std::max<ptrdiff_t>(64, 4 * sorted));
      std::partial_sort(candidates_.begin() + i, candidates_.begin() + sorted, candidates_.begin() + keep,
                        better);
    }
    if (i > 0 && (mass >= sampling_.top_p * total || candidates_[i].score < floor)) break;
    mass += std::exp((candidates_[i].score - highest) / temperature);
    weights_.push_back(mass);
  }
  const auto chosen = std::upper_bound(weights_.begin(), weights_.end(), random_.uniform() * mass);
  return candidates_[std::min<size_t>(chosen - weights_.begin(), weights_.size() - 1)].id;
}

}  // namespace calyrex::infer
