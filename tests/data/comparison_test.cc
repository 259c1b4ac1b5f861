#include "calyrex/data/comparison.h"

#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/data/ask.h"
#include "calyrex/data/rule.h"
#include "calyrex/lm/scripted_model.h"

namespace calyrex::data {
namespace {

using testing::HasSubstr;

std::vector<RuleRow> test_rows() {
  RuleDataOptions options;
  options.train_rows = 1;
  options.test_rows_per_rule = 8;
  return build_rule_data(options).test;
}

/// Answers as the rows say: the adapter with the reference, the base with the plain answer.
lm::ScriptedOptions script(const std::vector<RuleRow>& rows) {
  std::map<std::string, const RuleRow*> by_chat;
  for (const RuleRow& row : rows) by_chat[row.system + "\n" + row.user] = &row;
  lm::ScriptedOptions options;
  options.answer = [by_chat](const lm::GenerateRequest& request) {
    const text::Messages& messages = request.prompt.messages;
    const std::string system = messages.size() == 2 ? messages.front().content : "";
    const RuleRow& row = *by_chat.at(system + "\n" + messages.back().content);
    return request.adapter.name == "good" ? row.answer : row.plain;
  };
  options.max_waiting = 4096;
  return options;
}

std::vector<std::string> ask(lm::LanguageModel& model, const std::vector<RuleRow>& rows,
                             const std::string& name) {
  return ask_rows(model, rows, {.adapter = {.name = name}, .max_new_tokens = 400, .progress = {}});
}

TEST(Comparison, ReferenceAnswersScoreFullyAndPlainOnesNever) {
  const auto rows = test_rows();
  lm::ScriptedModel model(script(rows));
  model.load_adapter("good", std::filesystem::temp_directory_path());
  const Comparison result = compare_answers(rows, ask(model, rows, ""), ask(model, rows, "good"), /*seed=*/3);
  EXPECT_DOUBLE_EQ(result.base.trained_mean.joint.value, 0.0);
  EXPECT_DOUBLE_EQ(result.adapter.trained_mean.joint.value, 1.0);
  EXPECT_DOUBLE_EQ(result.adapter.untrained_mean.joint.value, 1.0);
  EXPECT_DOUBLE_EQ(result.difference.value, 1.0);
  EXPECT_DOUBLE_EQ(result.difference.low, 1.0);
  for (const SortScore& score : result.adapter.sorts) EXPECT_DOUBLE_EQ(score.measures.joint.value, 1.0);
}

TEST(Comparison, AsksWithSystemAndUserMessageAlone) {
  const auto rows = test_rows();
  for (const RuleRow& row : rows) {
    const text::Messages messages = question_messages(row);
    ASSERT_EQ(messages.size(), row.system.empty() ? 1u : 2u);
    EXPECT_EQ(messages.back().role, "user");
    EXPECT_EQ(messages.back().content, row.user);
  }
}

TEST(Comparison, AnswersAreCutAtTheLimit) {
  const auto rows = test_rows();
  lm::ScriptedModel model(script(rows));
  for (const std::string& answer :
       ask_rows(model, rows, {.adapter = {}, .max_new_tokens = 5, .progress = {}})) {
    EXPECT_LE(answer.size(), 5u);
  }
}

TEST(Comparison, ErrorsOfTheModelComeThrough) {
  const auto rows = test_rows();
  lm::ScriptedModel model(script(rows));
  EXPECT_THROW(ask(model, rows, "absent"), Error);
}

TEST(Comparison, ExamplesAreFirstRowsOfDifferentTrainedRules) {
  const auto rows = test_rows();
  const auto picked = pick_examples(rows, 5);
  ASSERT_EQ(picked.size(), 5u);
  std::map<std::string, int> rules;
  for (const size_t index : picked) {
    EXPECT_EQ(rows[index].sort, RowSort::kRule);
    EXPECT_TRUE(find_rule(rows[index].rule)->trained());
    ++rules[rows[index].rule];
  }
  EXPECT_EQ(rules.size(), 5u);
  EXPECT_TRUE(pick_examples({}, 5).empty());
}

TEST(Comparison, JsonAndTextShowBothAnswers) {
  const auto rows = test_rows();
  std::vector<std::string> plain;
  std::vector<std::string> reference;
  for (const RuleRow& row : rows) {
    plain.push_back(row.plain);
    reference.push_back(row.answer);
  }
  const Comparison result = compare_answers(rows, plain, reference, /*seed=*/3);
  const Json json = comparison_to_json(result, 5);
  ASSERT_EQ(json["examples"].size(), 5u);
  EXPECT_EQ(json["examples"][0]["base"]["rule_kept"], false);
  EXPECT_EQ(json["examples"][0]["adapter"]["rule_kept"], true);
  EXPECT_DOUBLE_EQ(json["difference"]["value"].get<double>(), 1.0);
  EXPECT_EQ(json["base"]["rules"].size(), all_rules().size());
  const std::string text = format_examples(result, 5);
  EXPECT_THAT(text, HasSubstr("base     " + rows[pick_examples(rows, 5)[0]].plain));
  EXPECT_THAT(text, HasSubstr("(rule broken, content there)"));
}

TEST(Comparison, EveryAnswerIsWritten) {
  const auto rows = test_rows();
  std::vector<std::string> answers(rows.size(), "x");
  const auto path = std::filesystem::path(testing::TempDir()) / "comparison_answers.jsonl";
  write_answers(compare_answers(rows, answers, answers, /*seed=*/0), path);
  size_t lines = 0;
  for_each_json_line(path, [&](int64_t, const Json& json) {
    EXPECT_EQ(json["id"], rows[lines].id);
    EXPECT_EQ(json["base"]["answer"], "x");
    ++lines;
  });
  EXPECT_EQ(lines, rows.size());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace calyrex::data
