#include "calyrex/infer/core/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "calyrex/base/error.h"

namespace calyrex::infer {
namespace {

LogitsRow row_of(const std::vector<float>& logits) {
  double total = 0.0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit));
  const auto best = std::max_element(logits.begin(), logits.end());
  return {
      .logits = logits, .best = static_cast<TokenId>(best - logits.begin()), .log_sum_exp = std::log(total)};
}

/// Shares of each token among many draws.
std::map<TokenId, double> shares(const lm::Sampling& sampling, const std::vector<float>& logits,
                                 const std::vector<TokenId>& context = {}) {
  constexpr int kDraws = 20000;
  Sampler sampler(sampling, 17, 0);
  std::map<TokenId, double> counts;
  for (int i = 0; i < kDraws; ++i) counts[sampler.sample(row_of(logits), context).id] += 1.0 / kDraws;
  return counts;
}

/// Within five standard deviations of a share among 20,000 draws.
void expect_shares(const std::map<TokenId, double>& actual, const std::map<TokenId, double>& expected) {
  for (const auto& [id, share] : actual)
    EXPECT_TRUE(expected.contains(id)) << "token " << id << ": " << share;
  for (const auto& [id, share] : expected) {
    const auto found = actual.find(id);
    EXPECT_NEAR(found == actual.end() ? 0.0 : found->second, share,
                5.0 * std::sqrt(share * (1 - share) / 20000) + 1e-9)
        << "token " << id;
  }
}

const std::vector<float> kLogits = {std::log(0.1f), std::log(0.4f), std::log(0.3f), std::log(0.15f),
                                    std::log(0.05f)};

TEST(Sampler, GreedyTakesTheLowerIdOnTies) {
  Sampler sampler({}, 0, 0);
  const std::vector<float> logits = {1.0f, 3.0f, 3.0f, 2.0f};
  const SampledToken token = sampler.sample(row_of(logits), {});
  EXPECT_EQ(token.id, 1);
  EXPECT_NEAR(token.logprob, 3.0 - row_of(logits).log_sum_exp, 1e-6);
  Sampler biased({.logit_bias = {{3, 1.0}}}, 0, 0);
  EXPECT_EQ(biased.sample(row_of(logits), {}).id, 1);
}

TEST(Sampler, TemperatureFollowsTheSoftmax) {
  expect_shares(shares({.temperature = 1.0}, kLogits), {{0, 0.1}, {1, 0.4}, {2, 0.3}, {3, 0.15}, {4, 0.05}});
  // At temperature 0.5 probabilities are squared: 0.01, 0.16, 0.09, 0.0225, 0.0025 over 0.285.
  expect_shares(
      shares({.temperature = 0.5}, kLogits),
      {{0, 0.01 / 0.285}, {1, 0.16 / 0.285}, {2, 0.09 / 0.285}, {3, 0.0225 / 0.285}, {4, 0.0025 / 0.285}});
}

TEST(Sampler, FiltersKeepWhatTheySay) {
  expect_shares(shares({.temperature = 1.0, .top_k = 2}, kLogits), {{1, 0.4 / 0.7}, {2, 0.3 / 0.7}});
  expect_shares(shares({.temperature = 1.0, .top_p = 0.6}, kLogits), {{1, 0.4 / 0.7}, {2, 0.3 / 0.7}});
  expect_shares(shares({.temperature = 1.0, .top_p = 0.75}, kLogits),
                {{1, 0.4 / 0.85}, {2, 0.3 / 0.85}, {3, 0.15 / 0.85}});
  expect_shares(shares({.temperature = 1.0, .top_p = 0.01}, kLogits), {{1, 1.0}});
  expect_shares(shares({.temperature = 1.0, .min_p = 0.3}, kLogits),
                {{1, 0.4 / 0.85}, {2, 0.3 / 0.85}, {3, 0.15 / 0.85}});
  // top-p counts within what top-k left: 0.4 of 0.7 is 57 %.
  expect_shares(shares({.temperature = 1.0, .top_k = 2, .top_p = 0.55}, kLogits), {{1, 1.0}});
  expect_shares(shares({.temperature = 1.0, .top_k = 100, .top_p = 0.9999}, kLogits),
                {{0, 0.1}, {1, 0.4}, {2, 0.3}, {3, 0.15}, {4, 0.05}});
}

TEST(Sampler, TopPOverALargeVocabularyKeepsTheSmallestSet) {
  // 3,000 equal tokens: a mass of a half is the first 1,500 by id.
  const std::vector<float> logits(3000, 1.0f);
  Sampler sampler({.temperature = 1.0, .top_p = 0.5}, 3, 0);
  TokenId highest = 0;
  for (int i = 0; i < 5000; ++i) highest = std::max(highest, sampler.sample(row_of(logits), {}).id);
  EXPECT_LE(highest, 1500);
  EXPECT_GE(highest, 1450);
}

TEST(Sampler, PenaltyAndBiasActOnceAToken) {
  // CTRL's rule: positive logits are divided, negative ones multiplied.
  const std::vector<float> logits = {2.0f, 1.5f, -1.0f};
  Sampler sampler({.repetition_penalty = 2.0}, 0, 0);
  EXPECT_EQ(sampler.sample(row_of(logits), {}).id, 0);
  EXPECT_EQ(sampler.sample(row_of(logits), std::vector<TokenId>{0, 0, 0}).id, 1);
  const std::vector<TokenId> context = {0, 2, 2};
  const double a = std::exp(1.0), b = std::exp(1.5 + 0.25), c = std::exp(-2.0);
  expect_shares(
      shares({.temperature = 1.0, .repetition_penalty = 2.0, .logit_bias = {{1, 0.25}}}, logits, context),
      {{0, a / (a + b + c)}, {1, b / (a + b + c)}, {2, c / (a + b + c)}});
  // What is reported stays the model's own distribution.
  EXPECT_NEAR(sampler.sample(row_of(logits), context).logprob, 1.5 - row_of(logits).log_sum_exp, 1e-6);
}

TEST(Sampler, TopLogprobsAreSorted) {
  Sampler sampler({}, 0, 3);
  const std::vector<float> logits = {0.0f, 2.0f, 1.0f, 2.0f, 1.0f};
  const SampledToken token = sampler.sample(row_of(logits), {});
  ASSERT_EQ(token.top.size(), 3u);
  EXPECT_EQ(token.top[0].id, 1);
  EXPECT_EQ(token.top[1].id, 3);
  EXPECT_EQ(token.top[2].id, 2);
  EXPECT_NEAR(token.top[2].logprob, 1.0 - row_of(logits).log_sum_exp, 1e-6);
}

TEST(Sampler, SeedsMakeStreams) {
  const auto draw = [](uint64_t seed) {
    Sampler sampler({.temperature = 1.0}, seed, 0);
    std::vector<TokenId> ids;
    for (int i = 0; i < 20; ++i) ids.push_back(sampler.sample(row_of(kLogits), {}).id);
    return ids;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(Sampler, RefusesWhatIsNotFinite) {
  LogitsRow row = row_of(kLogits);
  row.log_sum_exp = std::numeric_limits<double>::quiet_NaN();
  Sampler sampler({}, 0, 0);
  EXPECT_THROW(sampler.sample(row, {}), Error);
}

}  // namespace
}  // namespace calyrex::infer
