// Scores against published ones, and every given file loaded. Needs the benchmark data; else skipped.
#include <gmock/gmock.h>

#include "calyrex/base/json.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/scorers/final_number.h"
#include "calyrex/eval/scorers/span_answer.h"
#include "tests/eval/ifeval_data.h"
#include "tests/eval/task_support.h"

namespace calyrex::eval {
namespace {

using calyrex::test::eval_data;
using namespace test;

struct Published {
  double exact_match;
  double f1;
};

/// Percentages of a prediction file, through the task.
Published score_predictions(std::string_view task, const std::string& data, const std::string& predictions) {
  const Samples samples = load(task, options(eval_data() / "squad" / data, Form::kSystem));
  const Json answers = read_json_file(eval_data() / "squad" / predictions, {.max_keys = 100'000});
  std::map<std::string, std::string> by_id;
  for (const auto& entry : answers.items()) by_id[entry.key()] = entry.value().get<std::string>();
  std::vector<Graded> graded;
  for (const auto& sample : samples)
    graded.push_back({sample.get(), grade(*sample, {by_id.at(sample->id())})});
  const Metrics metrics = find_task(task).metrics(graded);
  return {100 * metrics.at("exact_match").value, 100 * metrics.at("f1").value};
}

TEST(PublishedScores, SquadPredictionFiles) {
  CALYREX_NEED_DATA(eval_data() / "squad/expected_scores.json");
  const Json expected = read_json_file(eval_data() / "squad/expected_scores.json");
  const auto check = [&](std::string_view key, const Published& scores) {
    for (const auto& entry : expected.items()) {
      if (entry.key().find(key) == std::string::npos) continue;
      EXPECT_NEAR(scores.exact_match, entry.value().at("EM").get<double>(), 0.01) << key;
      EXPECT_NEAR(scores.f1, entry.value().at("F1").get<double>(), 0.01) << key;
      return;
    }
    FAIL() << "no expected score of " << key;
  };
  check("1.1/Match-LSTM", score_predictions("squad", "dev-v1.1.json", "pred_v1.1_match_lstm.json"));
  check("v2.0/BERT (single", score_predictions("squad2", "dev-v2.0.json", "pred_v2.0_bert_single.json"));
}

TEST(PublishedScores, EveryFlagOfTheGsm8kSolutions) {
  const std::filesystem::path path = eval_data() / "gsm8k/example_model_solutions.jsonl";
  CALYREX_NEED_DATA(path);
  int64_t flags = 0;
  for_each_json_line(path, [&](int64_t line, const Json& row) {
    const auto reference = marked_number(row.at("ground_truth").get<std::string>());
    ASSERT_TRUE(reference.has_value()) << line;
    for (const auto& entry : row.items()) {
      if (!entry.value().is_object()) continue;
      const auto said = marked_number(entry.value().at("solution").get<std::string>());
      EXPECT_EQ(said == reference, entry.value().at("is_correct").get<bool>()) << line << " " << entry.key();
      ++flags;
    }
  });
  EXPECT_EQ(flags, 5276);
}

struct DataSet {
  std::string task;
  std::string path;
  size_t samples;
};

TEST(PublishedData, EveryRowLoadsInEveryForm) {
  CALYREX_NEED_DATA(eval_data() / "mmlu");
  // Glaive: turns of the assistant in the 191 dialogues with functions, 211 of them calls.
  const DataSet sets[] = {
      {"mmlu", "mmlu", 14042},    {"gsm8k", "gsm8k", 1319}, {"squad", "squad", 10570},
      {"squad2", "squad", 11873}, {"bfcl", "bfcl", 1498},   {"tensortrust", "tensortrust", 2406},
      {"sep", "sep", 9160},       {"glaive", "glaive", 0},  {"prompt_leak", "tensortrust", 567}};
  for (const DataSet& set : sets) {
    for (const Form form : find_task(set.task).info().forms) {
      LoadOptions load_options = options(eval_data() / set.path, form);
      load_options.form_text = "Answer well.";
      const Samples samples = load(set.task, load_options);
      EXPECT_EQ(set.samples > 0 ? samples.size() : 0, set.samples) << set.task << " " << form_name(form);
      for (const auto& sample : samples) ASSERT_FALSE(sample->next({}).empty());
    }
  }
}

TEST(PublishedData, GlaiveHolds211Calls) {
  CALYREX_NEED_DATA(eval_data() / "glaive");
  int calls = 0;
  for (const auto& sample : load("glaive", options(eval_data() / "glaive", Form::kSystem))) {
    calls += grade(*sample, {""}).scores.contains("exact_match");
  }
  EXPECT_EQ(calls, 211);
}

/// The reference itself, written as JSON calls, must be right: schemas and answers agree with the rule.
TEST(PublishedData, ReferenceAnswersOfBfclAreRight) {
  CALYREX_NEED_DATA(eval_data() / "bfcl");
  std::map<std::string, std::string> answers;
  for (const auto& entry : std::filesystem::directory_iterator(eval_data() / "bfcl/possible_answer")) {
    for_each_json_line(entry.path(), [&](int64_t, const Json& row) {
      std::string calls;
      for (const Json& call : row.at("ground_truth")) {
        Json arguments = Json::object();
        for (const auto& parameter : call.begin().value().items()) {
          for (const Json& value : parameter.value()) {
            if (value == "" && parameter.value().size() > 1) continue;
            if (value != "") arguments[parameter.key()] = value;
            break;
          }
        }
        calls += to_json_line({{"name", call.begin().key()}, {"arguments", arguments}}) + "\n";
      }
      answers[row.at("id").get<std::string>()] = calls;
    });
  }
  int64_t right = 0;
  int64_t total = 0;
  for (const auto& sample : load("bfcl", options(eval_data() / "bfcl", Form::kSystem))) {
    const Verdict verdict = grade(*sample, {answers[sample->id()]});
    right += verdict.scores.at("acc") == 1;
    ++total;
    // Allowed objects hold lists of values, so that one of them written out is no answer.
    const bool nested = to_json_line(verdict.detail.at("calls")).find(":[") != std::string::npos;
    // Its reference allows `permeability`, which the schema of that function does not have.
    const bool inconsistent = sample->id() == "parallel_multiple_12";
    EXPECT_TRUE(verdict.scores.at("acc") == 1 || nested || inconsistent)
        << sample->id() << ": " << verdict.detail;
  }
  EXPECT_GE(right, total * 95 / 100);
}

}  // namespace
}  // namespace calyrex::eval
