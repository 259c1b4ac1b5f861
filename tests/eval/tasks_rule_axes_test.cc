// rule_axes: the same cases on every axis, splits that share nothing, and metrics by variant.
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/data/filler.h"
#include "calyrex/data/rule_axes.h"
#include "calyrex/eval/run/task_choice.h"
#include "tests/eval/task_support.h"
#include "tests/eval/tasks_support.h"

namespace calyrex::eval {
namespace {

using data::AxisRow;
using data::Split;
using testing::HasSubstr;

std::vector<AxisRow> rows_of(Split split, const std::string& axis = "", std::vector<std::string> rules = {}) {
  return data::build_axis_rows({.seed = 1, .split = split, .axis = axis, .rules = std::move(rules)});
}

TEST(RuleAxes, EveryVariantAsksTheSameCases) {
  std::map<std::string, AxisRow> plain;
  std::map<std::string_view, int> counts;
  for (const AxisRow& row : rows_of(Split::kTest, "", {"upper_case", "begins_with"})) {
    const std::string number = row.row.id.substr(0, row.row.id.find('/'));
    ++counts[row.variant.name];
    if (row.variant.axis == "plain") {
      plain.emplace(number, row);
      continue;
    }
    const AxisRow& same = plain.at(number);
    EXPECT_EQ(row.row.checker, same.row.checker) << row.row.id;
    EXPECT_EQ(row.row.expected, same.row.expected) << row.row.id;
    EXPECT_THAT(row.row.user, HasSubstr(same.row.user)) << row.row.id;
    EXPECT_TRUE(row.row.system.starts_with(same.row.system)) << row.row.id;
    const bool defended = row.variant.name.ends_with("_defended");
    EXPECT_EQ(row.row.system != same.row.system, defended) << row.row.id;
  }
  EXPECT_EQ(counts.size(), data::axis_variants().size());
  EXPECT_EQ(counts["plain"], 16);
  EXPECT_EQ(counts["attack_header_defended"], 8);
  EXPECT_EQ(counts["filler_7k"], 4);
}

TEST(RuleAxes, ADefenceLeavesTheAttackAsItIs) {
  std::map<std::string, std::string> users;
  for (const AxisRow& row : rows_of(Split::kTest, "attack")) {
    std::string id = row.row.id;
    const size_t at = id.find("_defended");
    if (at != std::string::npos) id.erase(at);
    std::string attack = row.row.user;
    for (const text::Message& message : row.earlier) attack += "\n" + message.content;
    const auto [entry, is_new] = users.emplace(id, attack);
    if (!is_new) EXPECT_EQ(entry->second, attack) << row.row.id;
  }
  EXPECT_GT(users.size(), 100u);
}

TEST(RuleAxes, ShotsBreakTheRule) {
  int seen = 0;
  for (const AxisRow& row : rows_of(Split::kDev, "attack")) {
    if (!row.variant.name.starts_with("attack_shots")) continue;
    ++seen;
    ASSERT_EQ(row.earlier.size(), 32u);
    for (size_t i = 1; i < row.earlier.size(); i += 2)
      EXPECT_FALSE(data::keeps_rule(row.row.checker, row.earlier[i].content)) << row.row.id;
  }
  EXPECT_GT(seen, 0);
}

TEST(RuleAxes, SplitsShareNoQuestionAndNoWording) {
  std::map<std::string, Split> wordings;
  for (const Split split : {Split::kTrain, Split::kDev, Split::kTest}) {
    for (const AxisRow& row : rows_of(split, "plain")) {
      // A request for the code is no question of the pools; its wordings have splits of their own.
      if (row.row.rule != "keep_secret") EXPECT_EQ(data::split_of(row.row.question), split) << row.row.id;
      const auto [entry, is_new] = wordings.emplace(row.row.wording, split);
      EXPECT_TRUE(is_new || entry->second == split) << row.row.wording;
    }
  }
}

TEST(RuleAxes, RowsComeInRoundsOverTheRules) {
  std::set<std::string> rules, first;
  const std::vector<AxisRow> rows = rows_of(Split::kTest, "plain");
  for (const AxisRow& row : rows) rules.insert(row.row.rule);
  for (size_t i = 0; i < rules.size(); ++i) first.insert(rows[i].row.rule);
  EXPECT_EQ(first, rules);
}

TEST(RuleAxes, FillerIsAsLongAsItSays) {
  for (const int64_t tokens : {2000, 4000, 7000}) {
    const std::string text = data::filler_text(tokens, RandomStream(0, "x"));
    EXPECT_NEAR(static_cast<double>(text.size()) / data::kFillerBytesPerToken, static_cast<double>(tokens),
                60);
    EXPECT_EQ(text.back(), '.');
  }
  EXPECT_NE(data::filler_text(100, RandomStream(0, "x")), data::filler_text(100, RandomStream(1, "x")));
}

TEST(RuleAxesTask, TenTurnsAreTheModelsOwn) {
  const Samples samples =
      find_task("rule_axes").load({.sample = true, .form = Form::kSystem, .axis = "turns"});
  ASSERT_EQ(samples.size(), 1u);
  int turn = 0;
  const auto replies = test::play(*samples[0], [&](const GenerateAsk& ask) {
    EXPECT_EQ(ask.messages.size(), static_cast<size_t>(2 + 2 * turn));
    if (turn > 0) EXPECT_EQ(ask.messages[ask.messages.size() - 2].content, "ANSWER " + std::to_string(turn));
    return "ANSWER " + std::to_string(++turn);
  });
  EXPECT_EQ(replies.size(), 11u);
  const Verdict verdict = samples[0]->grade(replies);
  EXPECT_EQ(verdict.scores.at("rule_kept"), 1.0) << "capital letters";
  EXPECT_EQ(verdict.scores.at("content_present"), 0.0);
  EXPECT_EQ(verdict.detail.at("axis"), "turns_10");
}

TEST(RuleAxesTask, MetricsAreMeansOverRulesByVariant) {
  const Task& task = find_task("rule_axes");
  const Samples samples = task.load({.form = Form::kSystem, .axis = "plain"});
  std::vector<Graded> graded;
  std::set<std::string> rules;
  for (const auto& sample : samples) {
    Verdict verdict = test::grade(*sample, {"x"});
    const std::string rule = verdict.detail.at("rule").get<std::string>();
    if (!rules.contains(rule) && rules.size() == 5) continue;
    rules.insert(rule);
    graded.push_back({.sample = sample.get(), .verdict = verdict});
  }
  // Two of five rules are always kept, and one has more samples than the others.
  for (Graded& entry : graded)
    entry.verdict.scores["joint"] =
        entry.verdict.detail.at("rule") <= *std::next(rules.begin(), 1) ? 1.0 : 0.0;
  graded.push_back(graded.front());
  graded.push_back(graded.front());
  EXPECT_NEAR(task.metrics(graded).at("joint/plain").value, 0.4, 1e-12);
}

TEST(RuleAxesTask, SplitsAndAxesAreChecked) {
  const Task& task = find_task("rule_axes");
  const auto error = [&](TaskChoice choice) -> std::string {
    try {
      load_options(task, choice);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error({.task = "rule_axes", .split = "tset"}),
              HasSubstr("no split 'tset'; it has test, dev, train"));
  EXPECT_THAT(error({.task = "rule_axes", .axis = "x"}), HasSubstr("it has plain, attack, filler, turns"));
  EXPECT_EQ(error({.task = "rule_axes", .split = "dev", .axis = "filler"}), "");
}

TEST(RuleAxesTask, PromptsNameTheFillerInsteadOfShowingIt) {
  const Samples samples =
      find_task("rule_axes").load({.sample = true, .form = Form::kSystem, .axis = "filler"});
  ASSERT_EQ(samples.size(), 3u);
  for (const auto& sample : samples) {
    EXPECT_LT(to_json_line(sample->prompt()).size(), 1000u);
    EXPECT_GT(test::first_ask(*sample).messages.back().content.size(), 8000u);
  }
}

}  // namespace
}  // namespace calyrex::eval
