// The program with a judge at a loopback endpoint.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/json.h"
#include "tests/cli/run_program.h"
#include "tests/lm/openai_server.h"

namespace calyrex::test {
namespace {

using testing::HasSubstr;
using testing::Not;

ProgramResult program(const std::string& arguments) { return run_program(CALYREX_PROGRAM, arguments); }

constexpr const char* kDialogue =
    R"([{"system_id": 7, "rounds_related": false, "system_prompt": "s", "messages": [{"role": "user", "content": "u"},
        {"role": "user", "content": "v"}], "prompt_infos": {
        "u": {"alignment": "align", "criteria": {"1": {"criteria_content": "c", "criteria_type": "t"},
                                                 "2": {"criteria_content": "d", "criteria_type": "t"}}},
        "v": {"alignment": "align", "criteria": {"1": {"criteria_content": "e", "criteria_type": "t"}}}}}])";
constexpr const char* kVerdicts =
    R"({"system_id": 7, "round_index": 1, "verdict": {"1": true, "2": false}, "all_ok": 0, "response": "first answer"}
{"system_id": 7, "round_index": 2, "verdict": {"1": true}, "all_ok": 1, "response": "second answer"}
)";

TEST(JudgeAgreement, AsksTheJudgeOnceAndListsWhatItCannotRead) {
  std::atomic<int> asked = 0;
  OpenAiServer server([&](const OpenAiServer::Request& request) {
    if (request.path == "/v1/models")
      return OpenAiServer::Answer{.headers = {}, .pieces = {R"({"data": [{"id": "j"}]})"}};
    ++asked;
    const bool second = request.body.find("second answer") != std::string::npos;
    return OpenAiServer::says(second ? "I cannot decide." : R"({"1": "是", "2": "是"})");
  });
  TemporaryFolder folder;
  folder.write("system_benchmark_eval_datas.json", kDialogue);
  const std::string verdicts = folder.write("verdicts.jsonl", kVerdicts);
  const std::string command =
      fmt::format("eval judge-agreement --json --data {0} --verdicts {1} --judge {2} --output {0}/out",
                  folder.path().string(), verdicts, server.url());
  for (int run = 0; run < 2; ++run) {
    const ProgramResult result = program(command);
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    const Json json = parse_json(result.output, "output");
    EXPECT_EQ(json["n"], 2);
    EXPECT_EQ(json["both_yes"], 1);
    EXPECT_EQ(json["only_first"], 1);
    EXPECT_TRUE(json["metrics"]["judge"].empty()) << "the second turn is not decided";
    EXPECT_DOUBLE_EQ(json["metrics"]["published"]["isr"]["value"].get<double>(), 0.5);
    ASSERT_EQ(json["unreadable"].size(), 1u);
    EXPECT_EQ(json["unreadable"][0]["round_index"], 2);
    EXPECT_EQ(asked, 2) << "the second run asks nothing";
  }
}

TEST(JudgeAgreement, TwoFilesNeedNoJudge) {
  TemporaryFolder folder;
  const std::string verdicts = folder.write("a.jsonl", kVerdicts);
  const ProgramResult result =
      program(fmt::format("eval judge-agreement --verdicts {0} --against {0}", verdicts));
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("1.000 [1.000, 1.000]"));
  EXPECT_THAT(result.output, Not(HasSubstr("CSR")));
  folder.write("system_benchmark_eval_datas.json", kDialogue);
  const ProgramResult metrics = program(fmt::format(
      "eval judge-agreement --data {1} --verdicts {0} --against {0}", verdicts, folder.path().string()));
  EXPECT_THAT(metrics.output, HasSubstr("66.7 / 50.0 / 0.0 %"));
  EXPECT_EQ(program(fmt::format("eval judge-agreement --verdicts {}", verdicts)).exit_code, 2);
  EXPECT_EQ(
      program(fmt::format("eval judge-agreement --verdicts {0}.none --against {0}", verdicts)).exit_code, 3);
  const std::string bad = folder.write("bad.jsonl", "{\"system_id\": 1}\n");
  const ProgramResult malformed =
      program(fmt::format("eval judge-agreement --verdicts {} --against {}", bad, verdicts));
  EXPECT_EQ(malformed.exit_code, 2);
  EXPECT_THAT(malformed.errors, HasSubstr("bad.jsonl:1"));
}

TEST(EvalRun, ModelAndJudgeAtEndpoints) {
  std::atomic<bool> down = false;
  OpenAiServer server([&](const OpenAiServer::Request& request) {
    if (down) return OpenAiServer::fails(403, "no entry");
    const bool judged = request.body.find("GUARDRAILS") != std::string::npos;
    return OpenAiServer::says(judged ? R"({"1": "yes", "2": "yes"})" : "an answer");
  });
  TemporaryFolder folder;
  const std::string command = fmt::format(
      "eval run realguardrails --sample --endpoint {0} --endpoint-model m --judge {0} --judge-model j "
      "--output {1}/",
      server.url(), folder.path().string());
  const ProgramResult result = program(command + "up");
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const Json results = parse_json(read_text(folder.path() / "up/results.json"), "results");
  EXPECT_EQ(results["n"], 3);
  EXPECT_EQ(results["metrics"]["guardrails_kept"]["value"], 1.0);
  down = true;
  const ProgramResult failed = program(command + "down");
  EXPECT_EQ(failed.exit_code, 6) << failed.errors;
  EXPECT_THAT(failed.errors, HasSubstr("no entry"));
}

}  // namespace
}  // namespace calyrex::test
