#include "calyrex/study/analysis_rows.h"

#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/data/checker.h"
#include "calyrex/data/rule_files.h"
#include "calyrex/text/tokenizer.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::study {
namespace {

class AnalysisRows : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::path(testing::TempDir()) / "analysis_rows_test";
    data::RuleDataOptions options;
    options.train_rows = 20;
    options.test_rows_per_rule = 4;
    options.rules = {"upper_case", "begins_with", "ends_with"};
    data::write_rule_data(options, data::RowFormat::kMessages, folder_);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }
  void SetUp() override {
    const auto model = weights::open_model("tests/golden/models/qwen3");
    encoder_ = std::make_unique<text::ChatEncoder>(
        model->tokenizer(), text::Tokenizer::create(model->tokenizer()), text::ChatOptions{});
  }
  static std::filesystem::path folder_;
  std::unique_ptr<text::ChatEncoder> encoder_;
};
std::filesystem::path AnalysisRows::folder_;

TEST_F(AnalysisRows, AreDrawnEvenlyAndEndWithTheAnswer) {
  const auto rows = read_analysis_rows(folder_ / "test.jsonl", *encoder_, 9, 1, 1 << 20);
  ASSERT_EQ(rows.size(), 9u);
  const RuleLabels labels = label_rules(rows);
  ASSERT_EQ(labels.names.size(), 3u);
  for (int64_t label = 0; label < 3; ++label) {
    EXPECT_EQ(std::count(labels.labels.begin(), labels.labels.end(), label), 3);
  }
  for (const AnalysisRow& row : rows) {
    EXPECT_EQ(row.answer.end, static_cast<int64_t>(row.token_ids.size()));
    ASSERT_EQ(row.system_spans.size(), 1u);
    EXPECT_LE(row.system_spans[0].end, row.answer.begin);
    const std::vector<TokenId> answer(row.token_ids.begin() + row.answer.begin, row.token_ids.end());
    EXPECT_THAT(encoder_->tokenizer().decode(answer, text::Tokenizer::SpecialTokens::kSkip),
                testing::StartsWith(row.rule.answer));
    EXPECT_LT(row.without_system_ids.size(), row.prompt_ids().size());
  }
}

TEST_F(AnalysisRows, DonorsHaveAnotherRuleThatTheAnswerBreaks) {
  const auto rows = read_analysis_rows(folder_ / "test.jsonl", *encoder_, 12, 1, 1 << 20);
  const std::vector<size_t> donors = choose_donors(rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    const data::RuleRow& donor = rows[donors[i]].rule;
    EXPECT_NE(donor.rule, rows[i].rule.rule);
    EXPECT_FALSE(data::keeps_rule(donor.checker, rows[i].rule.answer))
        << donor.rule << ": " << rows[i].rule.answer;
  }
}

TEST_F(AnalysisRows, LeavesOutWhatIsTooLong) {
  const auto all = read_analysis_rows(folder_ / "test.jsonl", *encoder_, 12, 1, 1 << 20);
  size_t longest = 0;
  for (const AnalysisRow& row : all) longest = std::max(longest, row.token_ids.size());
  const auto rest =
      read_analysis_rows(folder_ / "test.jsonl", *encoder_, 12, 1, static_cast<int64_t>(longest) - 1);
  EXPECT_LT(rest.size(), all.size());
  EXPECT_GT(rest.size(), 0u);
}

TEST_F(AnalysisRows, RefusesWhatItCannotUse) {
  const auto error = [&](int64_t limit, int64_t max_tokens) {
    try {
      read_analysis_rows(folder_ / "test.jsonl", *encoder_, limit, 0, max_tokens);
    } catch (const Error& caught) {
      return std::string(caught.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error(9, 10), testing::HasSubstr("rows of at most 10 tokens state fewer than two rules"));
  EXPECT_THAT(error(3, 1 << 20), testing::HasSubstr("calyrex data build rules"));
}

}  // namespace
}  // namespace calyrex::study
