#include "calyrex/data/grader.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/data/answers.h"
#include "calyrex/data/report_text.h"

namespace calyrex::data {
namespace {

using testing::HasSubstr;

RuleRow make_row(std::string id, RowSort sort, std::string rule, Json params, std::string expected) {
  RuleRow row;
  row.id = std::move(id);
  row.sort = sort;
  row.rule = rule;
  row.user = "question " + row.id;
  row.checker = {.rule = std::move(rule), .params = std::move(params)};
  row.expected = expect_any({std::move(expected)});
  return row;
}

std::vector<RuleRow> some_rows() {
  return {make_row("a", RowSort::kRule, "upper_case", Json::object(), "red"),
          make_row("b", RowSort::kRule, "upper_case", Json::object(), "blue"),
          make_row("c", RowSort::kRule, "lower_case", Json::object(), "red"),
          make_row("d", RowSort::kRule, "hashtag", Json::object(), "red"),
          make_row("e", RowSort::kOverrule, "lower_case", Json::object(), "red"),
          make_row("f", RowSort::kNoSystem, "none", Json::object(), "red")};
}

const std::vector<std::string> kAnswers = {"RED", "RED", "red", "red", "Red", "It is red."};

TEST(Grader, CountsARowOnlyWhenRuleAndContentHold) {
  const auto rows = some_rows();
  EXPECT_EQ(grade_answer(rows[0], "RED"), (Verdict{true, true}));
  EXPECT_EQ(grade_answer(rows[0], "BLUE"), (Verdict{true, false}));
  EXPECT_EQ(grade_answer(rows[0], "red"), (Verdict{false, true}));
  EXPECT_EQ(grade_answer(rows[0], ""), (Verdict{false, false}));
  EXPECT_TRUE((Verdict{true, true}).joint());
  EXPECT_FALSE((Verdict{true, false}).joint());
  EXPECT_FALSE((Verdict{false, true}).joint());
}

TEST(Grader, RepeatingTheQuestionIsNoAnswer) {
  const std::string question = "The cup is red. What color is it?";
  Json params = Json::object();
  params["question"] = question;
  const RuleRow row = make_row("r", RowSort::kRule, "repeat_question", params, "red");
  EXPECT_EQ(grade_answer(row, question), (Verdict{false, false}));
  EXPECT_EQ(grade_answer(row, question + "\nI do not know."), (Verdict{true, false}));
  EXPECT_EQ(grade_answer(row, question + "\nRed."), (Verdict{true, true}));
}

TEST(Grader, MeansAreUnweightedOverRules) {
  const auto rows = some_rows();
  const RuleReport report = summarize(rows, grade_answers(rows, kAnswers));
  ASSERT_EQ(report.rules.size(), 3u);
  EXPECT_EQ(report.rules[0].rule, "upper_case");
  EXPECT_EQ(report.rules[0].rows, 2);
  EXPECT_DOUBLE_EQ(report.rules[0].measures.joint.value, 0.5);
  EXPECT_DOUBLE_EQ(report.rules[0].measures.rule.value, 1.0);
  EXPECT_DOUBLE_EQ(report.rules[0].measures.content.value, 0.5);
  EXPECT_DOUBLE_EQ(report.trained_mean.joint.value, 0.75);
  EXPECT_FALSE(report.rules[2].trained);
  EXPECT_DOUBLE_EQ(report.untrained_mean.joint.value, 0.0);
  EXPECT_DOUBLE_EQ(report.untrained_mean.content.value, 1.0);
}

TEST(Grader, OtherSortsAreApart) {
  const auto rows = some_rows();
  const RuleReport report = summarize(rows, grade_answers(rows, kAnswers));
  ASSERT_EQ(report.sorts.size(), 2u);
  EXPECT_EQ(report.sorts[0].sort, RowSort::kOverrule);
  EXPECT_DOUBLE_EQ(report.sorts[0].measures.joint.value, 0.0);
  EXPECT_DOUBLE_EQ(report.sorts[1].measures.joint.value, 1.0);
}

TEST(Grader, DifferenceIsPairedAndOfTrainedRules) {
  const auto rows = some_rows();
  const auto before = grade_answers(rows, {"red", "blue", "Red", "red", "", ""});
  const auto after = grade_answers(rows, {"RED", "blue", "red", "red #x", "", ""});
  const Estimate difference = joint_difference(rows, before, after, /*seed=*/1);
  EXPECT_DOUBLE_EQ(difference.value, 0.75);
  EXPECT_DOUBLE_EQ(difference.low, 0.5);
  EXPECT_DOUBLE_EQ(difference.high, 1.0);
}

TEST(Grader, ReportIsJson) {
  const auto rows = some_rows();
  const Json json = report_to_json(summarize(rows, grade_answers(rows, kAnswers)));
  EXPECT_EQ(json["rules"].size(), 3u);
  EXPECT_EQ(json["rules"][0]["rule"], "upper_case");
  EXPECT_DOUBLE_EQ(json["rules"][0]["rule_kept"]["value"].get<double>(), 1.0);
  EXPECT_DOUBLE_EQ(json["rules"][0]["content"]["value"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(json["trained_mean"]["joint"]["value"].get<double>(), 0.75);
  EXPECT_EQ(json["sorts"][0]["sort"], "overrule");
}

TEST(Grader, TablesHaveALineARule) {
  const auto rows = some_rows();
  const RuleReport report = summarize(rows, grade_answers(rows, kAnswers));
  const std::string table = format_report(report);
  EXPECT_THAT(table, HasSubstr("Capital letters only            50 % [9, 91]   100 %     50 %\n"));
  EXPECT_THAT(table, HasSubstr("Rules never trained"));
  EXPECT_THAT(table, HasSubstr("User tries to overrule"));
  const std::string both = format_comparison(report, report, {.value = 0.4, .low = 0.35, .high = 0.451});
  EXPECT_THAT(both, HasSubstr("mean over trained rules: +40 points [+35, +45]"));
}

class Answers : public testing::Test {
 protected:
  std::string read(const std::string& text) {
    write_file_atomically(path_, text);
    try {
      std::string joined;
      for (const std::string& answer : read_answers(path_, some_rows())) joined += answer + "|";
      return joined;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::filesystem::path path_ = std::filesystem::path(testing::TempDir()) / "answers_test.jsonl";
};

constexpr const char* kFive = R"({"id": "f", "response": "6"}
{"key": "b", "response": "2"}
{"id": "c", "response": "3"}
{"prompt": "question d", "response": "4"}
{"id": "e", "response": "5"}
)";

TEST_F(Answers, AreMatchedByIdKeyOrPrompt) {
  EXPECT_EQ(read(std::string(kFive) + R"({"id": "a", "response": "1"})"), "1|2|3|4|5|6|");
}

TEST_F(Answers, EveryRowNeedsOneAndEveryLineARow) {
  EXPECT_THAT(read(kFive), HasSubstr("answers_test.jsonl: no response to row a"));
  EXPECT_THAT(read(std::string(kFive) + R"({"id": "zz", "response": "1"})"),
              HasSubstr("answers_test.jsonl:6: id \"zz\" matches 0 rows"));
  EXPECT_THAT(read(std::string(kFive) + R"({"id": "b", "response": "1"})"),
              HasSubstr(":6: id \"b\" is answered twice"));
  EXPECT_THAT(read(R"({"id": "a", "response": 1})"), HasSubstr(":1: \"response\" is no text"));
  EXPECT_THAT(read(R"({"id": "a"})"), HasSubstr(":1: expected"));
  EXPECT_THAT(read("[]"), HasSubstr(":1: expected"));
}

}  // namespace
}  // namespace calyrex::data
