// MMLU: prompts to the letter, choices, tables with quotes, faults of rows.
#include <gmock/gmock.h>

#include "calyrex/eval/tasks/mmlu_csv.h"
#include "tests/eval/task_support.h"

namespace calyrex::eval {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;

constexpr const char* kDev =
    "question,choice0,choice1,choice2,choice3,answer\n First? ,a,b,c,d,1\nSecond?,e,f,g,h,3\n";
constexpr const char* kAlgebra = "\"What, then?\",\"1, 2\",\"say \"\"x\"\"\",\"two\nlines\",4,C\n";
constexpr const char* kLaw =
    "question,choice0,choice1,choice2,choice3,answer\r\nWho?,i,j,k,l,0\r\nWhy?,m,n,o,p,2\r\n";

DataFolder& folder() {
  static DataFolder folder;
  folder.write("dev/abstract_algebra_dev.csv", kDev);
  folder.write("test/abstract_algebra_test.csv", kAlgebra);
  folder.write("dev/professional_law_dev.csv", kDev);
  folder.write("test/professional_law_test.csv", kLaw);
  folder.write("test/README.txt", "no table");
  return folder;
}

LoadOptions with_shots(Form form, int shots) {
  LoadOptions load_options = options(folder().path(), form);
  load_options.shots = shots;
  return load_options;
}

constexpr const char* kAlgebraPrompt =
    "The following are multiple choice questions (with answers) about abstract algebra.\n\n"
    "First?\nA. a\nB. b\nC. c\nD. d\nAnswer: B\n\n"
    "Second?\nA. e\nB. f\nC. g\nD. h\nAnswer: D\n\n"
    "What, then?\nA. 1, 2\nB. say \"x\"\nC. two\nlines\nD. 4\nAnswer:";

TEST(Mmlu, RawPromptsAreThoseOfLmEvaluationHarness) {
  const Samples samples = load("mmlu", with_shots(Form::kRaw, 2));
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0]->id(), "abstract_algebra/0");
  EXPECT_EQ(samples[1]->id(), "professional_law/0");
  EXPECT_EQ(samples[2]->id(), "professional_law/1");
  EXPECT_EQ(samples[0]->prompt(), Json(kAlgebraPrompt));
  const std::vector<Ask> asks = samples[0]->next({});
  std::vector<std::string> completions;
  for (const Ask& ask : asks) {
    const ScoreAsk& score = std::get<ScoreAsk>(ask);
    EXPECT_EQ(score.prompt, kAlgebraPrompt);
    EXPECT_TRUE(score.messages.empty());
    completions.push_back(score.completion);
  }
  EXPECT_THAT(completions, ElementsAre(" A", " B", " C", " D"));
  EXPECT_TRUE(samples[0]->next(std::vector<Reply>(4)).empty());
}

TEST(Mmlu, ChatFormsHoldTheSameTextInTheUserMessage) {
  const Samples neutral = load("mmlu", with_shots(Form::kNeutral, 2));
  const ScoreAsk ask = std::get<ScoreAsk>(neutral[0]->next({}).at(2));
  ASSERT_EQ(ask.messages.size(), 2u);
  EXPECT_EQ(ask.messages[0].content, "You are a helpful assistant.");
  EXPECT_EQ(ask.messages[1].content, kAlgebraPrompt);
  EXPECT_EQ(ask.completion, " C");
  const Samples user = load("mmlu", with_shots(Form::kUser, 0));
  EXPECT_EQ(std::get<ScoreAsk>(user[1]->next({}).at(0)).messages.at(0).content,
            "The following are multiple choice questions (with answers) about professional law.\n\n"
            "Who?\nA. i\nB. j\nC. k\nD. l\nAnswer:");
}

Verdict grade_scores(const Sample& sample, const std::vector<std::vector<double>>& logprobs) {
  std::vector<Reply> replies;
  for (const auto& values : logprobs) replies.push_back({.logprobs = values});
  return sample.grade(replies);
}

TEST(Mmlu, TheLikeliestLetterWins) {
  const Samples samples = load("mmlu", with_shots(Form::kRaw, 0));
  const Verdict right = grade_scores(*samples[0], {{-3}, {-2.5}, {-1, -1}, {-9}});
  EXPECT_EQ(right.scores.at("acc"), 1);
  EXPECT_EQ(right.detail.at("choice"), "C");
  EXPECT_EQ(grade_scores(*samples[0], {{-3}, {-1.5}, {-1, -1}, {-9}}).scores.at("acc"), 0);
  EXPECT_EQ(grade_scores(*samples[0], {{-1}, {-1}, {-1}, {-1}}).detail.at("choice"), "A");
  EXPECT_TRUE(grade_scores(*samples[0], {{-1}, {-1}}).ungraded.has_value());
  EXPECT_TRUE(samples[0]->grade({}).ungraded.has_value());
}

TEST(Mmlu, AveragesRowsSubjectsAndCategories) {
  const Samples samples = load("mmlu", with_shots(Form::kRaw, 0));
  std::vector<Graded> graded;
  for (const size_t choice : {2, 0, 0}) {  // right, right, wrong
    std::vector<std::vector<double>> logprobs(4, {-2.0});
    logprobs[choice] = {-1.0};
    const Sample& sample = *samples[graded.size()];
    graded.push_back({&sample, grade_scores(sample, logprobs)});
  }
  const Metrics metrics = find_task("mmlu").metrics(graded);
  EXPECT_DOUBLE_EQ(metrics.at("acc").value, 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.at("acc_macro").value, 0.75);
  EXPECT_DOUBLE_EQ(metrics.at("acc_stem").value, 1);
  EXPECT_DOUBLE_EQ(metrics.at("acc_humanities").value, 0.5);
  EXPECT_EQ(metrics.size(), 4u);
}

std::string csv_error(const std::string& text) {
  try {
    parse_mmlu_csv(text, "t.csv");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(Mmlu, NamesTheFaultyRow) {
  EXPECT_THAT(csv_error("q,a,b,c,d\n"), HasSubstr("t.csv:1: 5 fields instead of 6"));
  EXPECT_THAT(csv_error("q,a,b,c,d,A\n\n\"r\n\",a,b,c,d,E\n"),
              HasSubstr("t.csv:3: answer: expected a letter"));
  EXPECT_THAT(csv_error("q,a,b,c,d,4\n"), HasSubstr("answer"));
  EXPECT_THAT(csv_error(" ,a,b,c,d,A\n"), HasSubstr("t.csv:1: question: blank"));
  EXPECT_THAT(csv_error("q,\"a,b,c,d,A\n"), HasSubstr("t.csv:1: a quote is never closed"));
  EXPECT_THAT(csv_error("q,\"a\"x,b,c,d,A\n"), HasSubstr("t.csv:1: text after a closing quote"));
  EXPECT_THAT(csv_error("q,a,b\xff,c,d,A\n"), HasSubstr("t.csv:1: choice B: not UTF-8"));
  EXPECT_EQ(csv_error(""), "no error");
  EXPECT_EQ(parse_mmlu_csv("\xef\xbb\xbf"
                           "q,a,b,c,d,D",
                           "t.csv")
                .at(0)
                .answer,
            3);
}

TEST(Mmlu, NamesAMissingOrStrangeFile) {
  DataFolder empty;
  EXPECT_THAT(load_error("mmlu", options(empty.path(), Form::kRaw)), HasSubstr("holds no test"));
  empty.write("test/cooking_test.csv", kLaw);
  EXPECT_THAT(load_error("mmlu", options(empty.path(), Form::kRaw)),
              HasSubstr("'cooking' is none of MMLU's"));
  DataFolder no_dev;
  no_dev.write("test/anatomy_test.csv", kLaw);
  EXPECT_THAT(load_error("mmlu", options(no_dev.path(), Form::kRaw)), HasSubstr("anatomy_dev.csv"));
  EXPECT_THAT(load_error("mmlu", with_shots(Form::kRaw, 3)),
              HasSubstr("abstract_algebra has 2 worked questions"));
  EXPECT_THAT(load_error("mmlu", with_shots(Form::kRaw, 6)), HasSubstr("mmlu takes 0 to 5"));
}

}  // namespace
}  // namespace calyrex::eval
