// `calyrex eval` as the real program: its files, messages and exit codes, without a model.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/json.h"
#include "tests/cli/run_program.h"

namespace calyrex::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

ProgramResult eval(const std::string& arguments) { return run_program(CALYREX_PROGRAM, "eval " + arguments); }

/// A right and a wrong answer to the program's own first two gsm8k rows.
constexpr const char* kAnswers =
    "{\"id\": \"0\", \"response\": \"5 * 8 = 40, less 7.\\n#### 33\"}\n"
    "{\"key\": 1, \"response\": \"no idea\"}\n";

TEST(EvalProgram, ListsAndDescribesItsTasks) {
  const ProgramResult list = eval("list");
  EXPECT_EQ(list.exit_code, 0) << list.errors;
  EXPECT_THAT(list.output, HasSubstr("gsm8k"));
  const Json json = Json::parse(eval("list --json").output);
  ASSERT_FALSE(json.empty());
  for (const Json& task : json) {
    const std::string name = task["name"];
    EXPECT_FALSE(task["measures"].get<std::string>().empty()) << name;
    EXPECT_FALSE(task["source"].get<std::string>().empty()) << name;
    EXPECT_FALSE(task["licence"].get<std::string>().empty()) << name;
    EXPECT_FALSE(task["forms"].empty()) << name;
    EXPECT_FALSE(task["scorer_version"].get<std::string>().empty()) << name;
    EXPECT_THAT(eval("info " + name).output, HasSubstr(name));
  }
  const ProgramResult unknown = eval("info gsm8");
  EXPECT_EQ(unknown.exit_code, 3);
  EXPECT_THAT(unknown.errors, HasSubstr("did you mean 'gsm8k'?"));
}

TEST(EvalProgram, GradesGivenAnswersIntoBothPlaces) {
  const TemporaryFolder folder;
  const std::string answers = folder.write("answers.jsonl", kAnswers);
  const std::string output = (folder.path() / "out").string();
  const ProgramResult run = eval("run gsm8k --sample --responses " + answers + " --output " + output);
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("| exact_match_strict | 50.00 %"));
  EXPECT_THAT(run.errors, HasSubstr("no response to 2 of 4 samples"));
  const Json results = Json::parse(read_text(output + "/results.json"));
  EXPECT_EQ(read_text(output + "/gsm8k/base/results.json"), read_text(output + "/results.json"));
  EXPECT_EQ(read_text(output + "/gsm8k/base/samples.jsonl"), read_text(output + "/samples.jsonl"));
  for (const char* key : {"task", "n", "metrics", "model", "adapter", "form", "seed", "shots", "decoding",
                          "scorer_version", "data_sha256", "ungraded", "not_applicable"}) {
    EXPECT_TRUE(results.contains(key)) << key;
  }
  EXPECT_EQ(results["n"], 2);
  EXPECT_EQ(results["unanswered"], 2);
  const std::string page = read_text(output + "/report.html");
  EXPECT_THAT(page, HasSubstr("exact_match_strict"));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("@DATA@")));
  EXPECT_THAT(read_text(output + "/report.md"), HasSubstr("## gsm8k"));
  // Other answers to the same folder replace them; they belong to no half-finished run.
  folder.write("answers.jsonl", "{\"id\": \"0\", \"response\": \"#### 33\"}\n");
  EXPECT_EQ(eval("run gsm8k --sample --responses " + answers + " --output " + output).exit_code, 0);
  EXPECT_EQ(Json::parse(read_text(output + "/results.json"))["n"], 1);
}

TEST(EvalProgram, ComparesTwoRuns) {
  const TemporaryFolder folder;
  const std::string first = (folder.path() / "first").string(), second = (folder.path() / "second").string();
  const std::string run =
      "run gsm8k --sample --responses " + folder.write("a.jsonl", kAnswers) + " --output ";
  ASSERT_EQ(eval(run + first).exit_code, 0);
  folder.write("a.jsonl",
               "{\"id\": \"0\", \"response\": \"\"}\n{\"id\": \"1\", \"response\": \"#### 16\"}\n");
  ASSERT_EQ(eval(run + second).exit_code, 0);
  const ProgramResult text = eval("compare " + first + " " + second);
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_THAT(text.output, HasSubstr("exact_match_strict gained: 1"));
  EXPECT_THAT(text.output, HasSubstr("exact_match_strict lost: 0"));
  const Json json = Json::parse(eval("compare --json " + first + " " + second).output);
  EXPECT_EQ(json[0]["scores"]["exact_match_strict"]["p_mcnemar"], 1.0);
  EXPECT_EQ(eval("compare " + first + " " + second + "-missing").exit_code, 3);
}

TEST(EvalProgram, MistakesHaveOneLineAndTheirExitCode) {
  const TemporaryFolder folder;
  const std::string output = " --output " + (folder.path() / "out").string();
  const std::string stray = folder.write("stray.jsonl",
                                         "{\"id\": \"0\", \"response\": \"\"}\n"
                                         "{\"id\": \"none\", \"response\": \"\"}\n");
  const std::string broken = folder.write("test.jsonl", "{\"question\": \"2 + 2?\", \"answer\": \"four\"}\n");
  struct Case {
    std::string arguments;
    int exit_code;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"run gsm8k --sample --responses " + stray + output, 2, "stray.jsonl:2: matches no sample"},
      {"run mmlu --sample --responses " + stray + output, 5, "mmlu compares log-probabilities"},
      {"run gsm8k,mmlu --sample --responses " + stray + output, 2, "one task at a time"},
      {"run gsm8k --shots 0 --data " + broken + output, 2, "test.jsonl:1"},
      {"run gsm8k --data " + (folder.path() / "nowhere").string() + output, 3, "no such file or folder"},
      {"run nothing --sample" + output, 3, "there is no task 'nothing'"},
      {"run gsm8k,gsm8k --sample" + output, 2, "named twice"},
      {"run gsm8k --sample --form upside-down" + output, 2, "form 'upside-down'"},
      {"run gsm8k --sample --model default --adapter " + (folder.path() / "nowhere").string() + output, 3,
       "nowhere"},
      {"run mmlu --sample --endpoint http://127.0.0.1:9/v1 --endpoint-model m" + output, 5,
       "needs a local model"},
      {"run gsm8k --sample --endpoint http://127.0.0.1:9 --responses " + stray + output, 2, "one of them"},
      {"run gsm8k --sample --limit 0" + output, 2, "--limit"},
      {"run gsm8k --sample", 2, "--output is required"},
      {"", 2, "eval"},
  };
  for (const Case& one : cases) {
    const ProgramResult result = eval(one.arguments);
    EXPECT_EQ(result.exit_code, one.exit_code) << one.arguments << "\n" << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(one.message)) << one.arguments;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_FALSE(fs::exists(folder.path() / "out")) << one.arguments;
  }
}

TEST(EvalProgram, AnEndpointThatStaysDownTellsHowToGoOn) {
  const TemporaryFolder folder;
  const std::string output = (folder.path() / "out").string();
  const ProgramResult run =
      eval("run gsm8k --sample --endpoint http://127.0.0.1:9/v1 --endpoint-model m --output " + output);
  EXPECT_EQ(run.exit_code, 6) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("what was done is kept in " + output));
  EXPECT_THAT(run.errors, HasSubstr("eval run gsm8k --sample --endpoint http://127.0.0.1:9/v1"));
  EXPECT_TRUE(fs::exists(output + "/gsm8k/base/run.json"));
}

}  // namespace
}  // namespace calyrex::test
