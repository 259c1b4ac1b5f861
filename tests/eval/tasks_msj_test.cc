#include <cmath>

#include "calyrex/eval/tasks/msj.h"
#include "calyrex/eval/tasks/msj_fit.h"
#include "calyrex/eval/tasks/tasks.h"
#include "tests/eval/tasks_support.h"

namespace calyrex::eval {
namespace {

using test::error_of;
using test::file_options;
using test::sample_options;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(PowerLaw, ExactLawsAreFound) {
  for (const double exponent : {0.5, 1.0, -0.25}) {
    std::vector<ShotPoint> points = {{.shots = 0, .nll = 99}};
    for (const double shots : {1.0, 2.0, 4.0, 64.0})
      points.push_back({.shots = shots, .nll = 3.0 * std::pow(shots, -exponent)});
    const auto fit = fit_power_law(points);
    ASSERT_TRUE(fit.has_value());
    EXPECT_NEAR(fit->exponent, exponent, 1e-12);
    EXPECT_NEAR(fit->scale, 3.0, 1e-12);
    EXPECT_NEAR(fit->r_squared, 1.0, 1e-12);
  }
}

TEST(PowerLaw, ScatteredPointsByHand) {
  // logs: x = 0, ln 2, ln 4 (0, L, 2L), y = ln 4, ln 3, ln 1; slope = (y3 - y1) / 2L = -1.
  const auto fit = fit_power_law(std::vector<ShotPoint>{{1, 4}, {2, 3}, {4, 1}});
  ASSERT_TRUE(fit.has_value());
  EXPECT_NEAR(fit->exponent, 1.0, 1e-12);
  EXPECT_NEAR(fit->scale, std::exp((std::log(4) + std::log(3)) / 3 + std::log(2)), 1e-12);
  EXPECT_NEAR(fit->r_squared, 0.89762, 1e-5);  // numpy: corrcoef(log x, log y)^2
}

TEST(PowerLaw, WhatHasNoFit) {
  EXPECT_EQ(fit_power_law({}), std::nullopt);
  EXPECT_EQ(fit_power_law(std::vector<ShotPoint>{{1, 2}}), std::nullopt);
  EXPECT_EQ(fit_power_law(std::vector<ShotPoint>{{2, 2}, {2, 3}}), std::nullopt);
  EXPECT_EQ(fit_power_law(std::vector<ShotPoint>{{0, 2}, {4, 0}, {8, NAN}, {16, 1}}), std::nullopt);
  EXPECT_EQ(fit_series({}, 0), std::nullopt);
}

TEST(PowerLaw, SeriesWithInterval) {
  std::vector<ShotSeries> series;
  for (int i = 0; i < 20; ++i) {
    const double exponent = 0.4 + 0.01 * i;
    series.push_back({{1, 2.0}, {4, 2.0 * std::pow(4, -exponent)}, {16, 2.0 * std::pow(16, -exponent)}});
  }
  series[0][64] = 1e9;  // not in every series: left out
  const auto fit = fit_series(series, 5);
  ASSERT_TRUE(fit.has_value());
  EXPECT_NEAR(fit->exponent.value, 0.495, 0.01);
  EXPECT_LT(fit->exponent.low, fit->exponent.value);
  EXPECT_GT(fit->exponent.high, fit->exponent.value);
  EXPECT_GT(fit->exponent.low, 0.45);
}

TEST(ShotLadder, PowersOfTwoAndTheMost) {
  EXPECT_THAT(shot_ladder(0, std::nullopt), ElementsAre(0));
  EXPECT_THAT(shot_ladder(1, std::nullopt), ElementsAre(0, 1));
  EXPECT_THAT(shot_ladder(6, std::nullopt), ElementsAre(0, 1, 2, 4, 6));
  EXPECT_THAT(shot_ladder(256, std::nullopt), ElementsAre(0, 1, 2, 4, 8, 16, 32, 64, 128, 256));
  EXPECT_THAT(shot_ladder(6, 3), ElementsAre(3));
  EXPECT_THAT(shot_ladder(6, 7), ElementsAre());
}

TEST(Refusals, Openings) {
  for (const char* text :
       {"I'm sorry, but I can't.", "I’m sorry", "\n\"I cannot do that", "As an AI model", "I WON'T"}) {
    EXPECT_TRUE(begins_with_refusal(text)) << text;
  }
  for (const char* text : {"", "Sure! I'm sorry for the wait.", "Arr", "I can do that", "Asan aid"}) {
    EXPECT_FALSE(begins_with_refusal(text)) << text;
  }
}

TEST(MsjRules, EveryShotBreaksTheRule) {
  const std::vector<ShotRow> rows = generate_shot_rows(1, 2, 32);
  EXPECT_GT(rows.size(), 20u);
  for (const ShotRow& row : rows) {
    ASSERT_TRUE(row.checker.has_value());
    EXPECT_EQ(row.shots.size(), 32u);
    EXPECT_FALSE(row.system.empty());
    EXPECT_FALSE(data::keeps_rule(*row.checker, row.target)) << row.id;
    for (const Shot& shot : row.shots) {
      EXPECT_FALSE(data::keeps_rule(*row.checker, shot.assistant)) << row.id << ": " << shot.assistant;
      EXPECT_NE(shot.user, row.question);
    }
  }
  EXPECT_EQ(generate_shot_rows(1, 2, 32)[3].question, rows[3].question);
}

TEST(MsjRules, SamplesAndMetrics) {
  LoadOptions options;
  options.form = Form::kSystem;
  const Samples samples = msj_rules_task().load(options);
  EXPECT_EQ(samples.size() % 10, 0u);
  const auto asks = samples[9]->next({});
  ASSERT_EQ(asks.size(), 2u);
  EXPECT_EQ(test::generate(asks).messages.size(), 2u + 2u * 256u);
  EXPECT_EQ(std::get<ScoreAsk>(asks[1]).messages, test::generate(asks).messages);
  // Always the plain answer of the last shot: it breaks the rule.
  const Metrics metrics = test::metrics_of(msj_rules_task(), samples, [](const GenerateAsk& ask) {
    return ask.messages.size() > 3 ? ask.messages[ask.messages.size() - 2].content : "";
  });
  EXPECT_DOUBLE_EQ(metrics.at("broken@0").value, 0.0) << "an empty answer breaks nothing";
  EXPECT_DOUBLE_EQ(metrics.at("broken@256").value, 1.0);
  EXPECT_DOUBLE_EQ(metrics.at("nll@4").value, 2.0);
  EXPECT_NEAR(metrics.at("nll_exponent").value, 0.0, 1e-12);
  EXPECT_NEAR(metrics.at("nll_scale").value, 2.0, 1e-12);
  options.shots = 4;
  EXPECT_EQ(msj_rules_task().load(options).size(), samples.size() / 10);
}

TEST(Msj, OwnFiles) {
  const std::string row =
      R"({"shots": [{"user": "a", "assistant": "b"}, {"user": "c", "assistant": "d"}], "question": "q", "target": "t"})";
  const Samples samples = msj_task().load(file_options(test::write_file("msj.jsonl", row)));
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[1]->id(), "1@1");
  const text::Messages messages = test::generate(samples[1]->next({})).messages;
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].content, "c") << "the last shots are kept";
  EXPECT_EQ(msj_task().load(file_options(test::write_file("msj.json", "[" + row + "]"))).size(), 3u);
  const std::vector<std::pair<std::string, std::string>> faults = {
      {R"("question": "q")", R"("question": "")"},
      {R"(, "target": "t")", ""},
      {R"("assistant": "d")", R"("assistant": 1)"}};
  for (const auto& [from, to] : faults) {
    std::string bad = row;
    bad.replace(bad.find(from), from.size(), to);
    const Error error =
        error_of([&] { msj_task().load(file_options(test::write_file("msj.jsonl", row + "\n" + bad))); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("msj.jsonl:2: field '"));
  }
  EXPECT_GE(msj_task().load(sample_options()).size(), 6u);
}

}  // namespace
}  // namespace calyrex::eval
