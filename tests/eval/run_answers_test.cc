#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/run/answers.h"
#include "tests/eval/run_support.h"

namespace calyrex::eval::test {
namespace {

using testing::HasSubstr;

Samples three_samples() {
  Samples samples;
  samples.push_back(question_sample("1", "first"));
  samples.push_back(question_sample("2", "same"));
  samples.push_back(question_sample("3", "same"));
  return samples;
}

LoadedTask three_questions() {
  static const ScriptedTask task("three", three_samples);
  return load_task(task, {});
}

std::string refusal(const std::string& lines) {
  const TemporaryFolder folder;
  LoadedTask task = three_questions();
  try {
    attach_answers(task, folder.write("answers.jsonl", lines));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(Answers, AreMatchedByIdKeyOrPrompt) {
  const TemporaryFolder folder;
  LoadedTask task = three_questions();
  const int64_t unanswered =
      attach_answers(task, folder.write("a.jsonl",
                                        "{\"key\": 3, \"response\": \"c\"}\n\n"
                                        "{\"prompt\": \"first\", \"response\": \"a x\", \"other\": [1]}\n"));
  EXPECT_EQ(unanswered, 1);
  ASSERT_EQ(task.samples.size(), 2u);
  EXPECT_EQ(task.samples[1]->id(), "3");
  EXPECT_EQ(task.answers->at(0).at(0), "a x");
  EXPECT_EQ(task.answers->at(1).at(0), "c");
}

TEST(Answers, TheIdCountsBeforeThePrompt) {
  const TemporaryFolder folder;
  LoadedTask task = three_questions();
  attach_answers(task, folder.write("a.jsonl", R"({"id": "2", "prompt": "same", "response": "b"})"));
  EXPECT_EQ(task.samples.at(0)->id(), "2");
  task = three_questions();
  attach_answers(task, folder.write("a.jsonl", R"({"id": 77, "prompt": "first", "response": ""})"));
  EXPECT_EQ(task.samples.at(0)->id(), "1");
}

TEST(Answers, RefuseWhatMatchesNothingOrTwice) {
  EXPECT_THAT(refusal("{\"id\": \"1\", \"response\": \"a\"}\n{\"id\": \"9\", \"response\": \"a\"}\n"),
              HasSubstr("answers.jsonl:2: matches no sample of the task (id \"9\")"));
  EXPECT_THAT(refusal(R"({"prompt": "same", "response": "a"})"), HasSubstr("that of 2 samples"));
  EXPECT_THAT(refusal("{\"id\": 1, \"response\": \"a\"}\n{\"prompt\": \"first\", \"response\": \"b\"}\n"),
              HasSubstr("answers.jsonl:2: this sample is answered twice"));
  EXPECT_THAT(
      refusal(R"({"prompt": "a日本語日本語日本語日本語日本語", "response": ""})"),
      HasSubstr(
          "(prompt \"a\u65e5\u672c\u8a9e\u65e5\u672c\u8a9e\u65e5\u672c\u8a9e\u65e5\u672c\u8a9e\u65e5...\")"));
  EXPECT_THAT(refusal(R"({"id": "1"})"), HasSubstr("\"response\" must be"));
  EXPECT_THAT(refusal(R"({"id": "1", "response": []})"), HasSubstr("\"response\" must be"));
  EXPECT_THAT(refusal(R"({"id": "1", "response": [3]})"), HasSubstr("\"response\" must be"));
  EXPECT_THAT(refusal(R"({"response": "a"})"), HasSubstr("expected {\"id\""));
  EXPECT_THAT(refusal("[]\n"), HasSubstr("answers.jsonl:1: expected a JSON object"));
  EXPECT_THAT(refusal("{\n"), HasSubstr("answers.jsonl:1"));
  EXPECT_THAT(refusal("\n"), HasSubstr("no answers"));
}

TEST(Answers, AreGradedWithoutAModel) {
  const TemporaryFolder folder;
  LoadedTask task = three_questions();
  attach_answers(
      task, folder.write("a.jsonl", "{\"id\": 1, \"response\": \"x\"}\n{\"id\": 2, \"response\": \"y\"}\n"));
  RunOptions options;
  options.output = folder / "out";
  options.model = []() -> lm::LanguageModel& { throw std::logic_error("no model is needed"); };
  std::vector<LoadedTask> tasks;
  tasks.push_back(std::move(task));
  const auto finished = run_tasks(std::move(tasks), {base_subject()}, options);
  EXPECT_EQ(finished.at(0).results["n"], 2);
  EXPECT_DOUBLE_EQ(finished[0].results["metrics"]["acc"]["value"].get<double>(), 0.5);
  EXPECT_FALSE(fs::exists(folder / "out/responses.jsonl"));
}

TEST(Answers, TooFewForASampleOfSeveralTurnsLeaveItUngraded) {
  const ScriptedTask task("turns", [] {
    Samples samples;
    for (const char* id : {"a", "b"}) {
      samples.push_back(std::make_unique<ScriptedSample>(
          id, Json(id),
          [](std::span<const Reply> replies) -> std::vector<Ask> {
            if (replies.size() == 2) return {};
            return {GenerateAsk{.messages = {user("go on")}}};
          },
          [](std::span<const Reply> replies) {
            Verdict verdict;
            verdict.scores["acc"] = replies[1].text == "two";
            return verdict;
          }));
    }
    return samples;
  });
  const TemporaryFolder folder;
  std::vector<LoadedTask> tasks = load(task);
  attach_answers(tasks[0], folder.write("a.jsonl",
                                        "{\"id\": \"a\", \"response\": [\"one\", \"two\"]}\n"
                                        "{\"id\": \"b\", \"response\": \"one\"}\n"));
  RunOptions options;
  options.output = folder / "out";
  const auto finished = run_tasks(std::move(tasks), {base_subject()}, options);
  EXPECT_EQ(finished.at(0).results["n"], 1);
  EXPECT_EQ(finished[0].results["ungraded"], 1);
  EXPECT_DOUBLE_EQ(finished[0].results["metrics"]["acc"]["value"].get<double>(), 1.0);
}

}  // namespace
}  // namespace calyrex::eval::test
