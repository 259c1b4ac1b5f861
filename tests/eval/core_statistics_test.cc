#include <gtest/gtest.h>

#include "calyrex/data/statistics.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/core/metrics.h"
#include "calyrex/eval/core/significance.h"

namespace calyrex::eval {
namespace {

// Binomial tails by hand: 2 * (C(n,0) + ... + C(n,k)) / 2^n.
TEST(McNemar, EqualsTheBinomialTail) {
  EXPECT_DOUBLE_EQ(mcnemar_exact(0, 0), 1.0);
  EXPECT_DOUBLE_EQ(mcnemar_exact(7, 7), 1.0);
  EXPECT_NEAR(mcnemar_exact(0, 5), 2.0 / 32, 1e-12);
  EXPECT_NEAR(mcnemar_exact(5, 0), 2.0 / 32, 1e-12);
  EXPECT_NEAR(mcnemar_exact(1, 9), 2.0 * 11 / 1024, 1e-12);
  EXPECT_NEAR(mcnemar_exact(3, 5), 2.0 * (1 + 8 + 28 + 56) / 256, 1e-12);
  EXPECT_NEAR(mcnemar_exact(4, 5), 1.0, 1e-12);
  EXPECT_GT(mcnemar_exact(4000, 4400), 0.0);
}

// Worked example: sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1, made monotone.
TEST(Holm, AdjustsInTheGivenOrder) {
  const std::vector<double> adjusted = holm_adjust({0.01, 0.04, 0.03, 0.005});
  EXPECT_NEAR(adjusted[0], 0.03, 1e-12);
  EXPECT_NEAR(adjusted[1], 0.06, 1e-12);
  EXPECT_NEAR(adjusted[2], 0.06, 1e-12);
  EXPECT_NEAR(adjusted[3], 0.02, 1e-12);
  EXPECT_TRUE(holm_adjust({}).empty());
  EXPECT_DOUBLE_EQ(holm_adjust({0.9, 0.8})[0], 1.0);
}

TEST(BootstrapRatio, DrawsWholeClusters) {
  // All parts of a cluster pass or fail together: the interval must be that of 40 clusters, not of 400 parts.
  std::vector<data::Cluster> clusters;
  for (int i = 0; i < 40; ++i) clusters.push_back({.sum = i % 2 == 0 ? 10.0 : 0.0, .weight = 10.0});
  const data::Estimate ratio = data::bootstrap_ratio(clusters, 0);
  EXPECT_DOUBLE_EQ(ratio.value, 0.5);
  EXPECT_NEAR(ratio.high - ratio.low, 2 * 1.96 * 0.5 / std::sqrt(40.0), 0.03);
  EXPECT_DOUBLE_EQ(data::bootstrap_ratio({{.sum = 1.0, .weight = 4.0}}, 0).low, 0.25);
  EXPECT_DOUBLE_EQ(data::bootstrap_ratio({}, 0).high, 0.0);
}

Graded graded(std::map<std::string, double> scores) {
  return {.sample = nullptr, .verdict = {.scores = std::move(scores)}};
}

TEST(Metrics, LeaveOutSamplesWithoutTheScore) {
  const std::vector<Graded> samples = {graded({{"acc", 1.0}}), graded({{"acc", 0.0}}), graded({{"f1", 0.5}})};
  EXPECT_DOUBLE_EQ(share_of(samples, "acc").value, 0.5);
  EXPECT_DOUBLE_EQ(mean_of(samples, "f1").value, 0.5);
  EXPECT_TRUE(has_score(samples, "f1"));
  EXPECT_FALSE(has_score(samples, "em"));
  EXPECT_DOUBLE_EQ(share_of(samples, "em").high, 1.0);
}

TEST(Metrics, RatioIsOverParts) {
  const std::vector<Graded> samples = {graded({{"followed", 1.0}, {"instructions", 1.0}}),
                                       graded({{"followed", 1.0}, {"instructions", 3.0}})};
  EXPECT_DOUBLE_EQ(ratio_of(samples, "followed", "instructions").value, 0.5);
}

TEST(Form, NamesRoundTrip) {
  for (const Form form : {Form::kUser, Form::kNeutral, Form::kSystem, Form::kFile}) {
    EXPECT_EQ(parse_form(form_name(form)), form);
  }
  EXPECT_ANY_THROW(parse_form("sys"));
}

TEST(Form, DecidesTheSystemMessage) {
  LoadOptions options;
  text::Messages messages = form_messages(options, "Do it.", "Text");
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].content, "Do it.\n\nText");
  options.form = Form::kNeutral;
  messages = form_messages(options, "", "Text");
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].content, kNeutralSystem);
  EXPECT_EQ(messages[1].content, "Text");
  options.form = Form::kSystem;
  messages = form_messages(options, "Do it.", "Text");
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[0].content, "Do it.");
  EXPECT_EQ(messages[1].content, "Text");
  options.form = Form::kFile;
  options.form_text = "Mine.";
  messages = form_messages(options, "Do it.", "Text");
  EXPECT_EQ(messages[0].content, "Mine.");
  EXPECT_EQ(messages[1].content, "Do it.\n\nText");
}

}  // namespace
}  // namespace calyrex::eval
