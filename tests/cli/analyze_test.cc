// analyze by the real program on a tiny random model.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/json.h"
#include "tests/cli/run_program.h"

namespace calyrex {
namespace {

using testing::HasSubstr;

test::ProgramResult run(const std::string& arguments) {
  return test::run_program(CALYREX_PROGRAM, arguments);
}

class Analyze : public testing::Test {
 protected:
  void SetUp() override {
    const auto built =
        run("data build rules --rows 20 --test-rows 4 --rules upper_case,begins_with,one_word --output " +
            path("rules"));
    ASSERT_EQ(built.exit_code, 0) << built.errors;
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string flags(int answers = 6) const {
    return "analyze --model tests/golden/models/llama --chat-template chatml --limit 12 "
           "--examples 2 "
           "--max-new-tokens 3 --data " +
           path("rules/test.jsonl") + " --output " + path("out") + " --answers " + std::to_string(answers) +
           " ";
  }
  test::TemporaryFolder folder_;
};

void expect_estimate(const Json& estimate) {
  EXPECT_LE(estimate["low"].get<double>(), estimate["value"].get<double>() + 1e-9);
  EXPECT_GE(estimate["high"].get<double>(), estimate["value"].get<double>() - 1e-9);
}

TEST_F(Analyze, ReportsEveryPart) {
  const test::ProgramResult result = run(flags() + "--adapter tests/golden/model/llama.default");
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("probe best after layer"));
  EXPECT_THAT(result.output, HasSubstr("attention of block 2"));
  EXPECT_THAT(result.output, HasSubstr("span of another row"));
  const Json report = parse_json(test::read_text(folder_.path() / "out" / "analysis.json"), "report");
  EXPECT_EQ(report["layers"].size(), 4u);
  EXPECT_NEAR(report["probe"]["chance"].get<double>(), 1.0 / 3, 1e-12);
  for (const char* subject : {"base", "adapter"}) {
    EXPECT_EQ(report["probe"][subject].size(), 4u);
    for (const Json& estimate : report["probe"][subject]) expect_estimate(estimate);
    EXPECT_EQ(report["difference"][subject][0], 0.0) << "the embedding of one token";
    EXPECT_GT(report["difference"][subject][3].get<double>(), 0.0);
    EXPECT_EQ(report["span_attention"][subject]["answer"].size(), 3u);
    EXPECT_EQ(report["span_attention"][subject]["answer"][0].size(), 4u);
  }
  EXPECT_EQ(report["probe"]["base"][1], report["probe"]["adapter"][1]) << "no block after layer 0";
  ASSERT_EQ(report["blocks"].size(), 2u);
  EXPECT_EQ(report["blocks"][1]["layer"], 2);
  ASSERT_EQ(report["examples"].size(), 2u);
  const Json& example = report["examples"][0];
  const Json& weights = example["blocks"][0]["answer"];
  ASSERT_EQ(weights.size(), 4u);
  ASSERT_EQ(weights[0].size(), example["tokens"].size());
  double sum = 0.0;
  for (const Json& weight : weights[0]) sum += weight.get<double>();
  EXPECT_NEAR(sum, 1.0, 1e-2);
  std::string text;
  for (const Json& token : example["tokens"]) text += token.get<std::string>();
  EXPECT_EQ(text, example["system"]);
  EXPECT_EQ(report["switches"]["settings"].size(), 8u);
  EXPECT_EQ(report["switches"]["settings"][0]["loss_change"]["value"], 0.0);
  EXPECT_EQ(report["swap"]["rows"], 6);
  const std::string page = test::read_text(folder_.path() / "out" / "analysis.html");
  EXPECT_THAT(page, HasSubstr("\"calyrex-analysis\""));
  EXPECT_EQ(page.find("@DATA@"), std::string::npos);
  EXPECT_EQ(page.find("src=\"http"), std::string::npos);
}

TEST_F(Analyze, SameSeedSameReport) {
  const std::string command = flags(0) + "--json";
  const test::ProgramResult first = run(command), second = run(command);
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_EQ(first.output, second.output);
  const Json report = parse_json(first.output, "report");
  EXPECT_TRUE(report["adapter"].is_null());
  EXPECT_TRUE(report["blocks"].is_null());
  EXPECT_TRUE(report["swap"].is_null());
  EXPECT_FALSE(report["probe"].contains("adapter"));
}

TEST_F(Analyze, OneRowARuleIsTooFewForAProbe) {
  const auto built = run(
      "data build rules --rows 20 --test-rows 1 --rules upper_case,begins_with,one_word,no_commas --output " +
      path("few"));
  ASSERT_EQ(built.exit_code, 0) << built.errors;
  const test::ProgramResult result =
      run("analyze --model tests/golden/models/llama --chat-template chatml --limit 4 --answers 0 --data " +
          path("few/test.jsonl") + " --output " + path("out"));
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("no probe: every rule has one row"));
}

TEST_F(Analyze, OtherKindsOfAdapter) {
  const test::ProgramResult mlp = run(flags() + "--json --adapter tests/golden/model/llama.parallel_mlp");
  ASSERT_EQ(mlp.exit_code, 0) << mlp.errors;
  const Json report = parse_json(mlp.output, "report");
  EXPECT_EQ(report["switches"]["settings"].size(), 4u);
  EXPECT_TRUE(report["examples"].is_null());
  EXPECT_TRUE(report["swap"].is_null());
  const test::ProgramResult lora = run(flags() + "--json --adapter tests/golden/model/llama.lora_all");
  ASSERT_EQ(lora.exit_code, 0) << lora.errors;
  EXPECT_TRUE(parse_json(lora.output, "report")["switches"].is_null());
}

TEST_F(Analyze, MistakesAreOneLine) {
  const std::string rows = folder_.write("chats.jsonl", "{\"instruction\": \"a\", \"output\": \"b\"}\n");
  const std::string rest =
      " --model tests/golden/models/llama --chat-template chatml --output " + path("out");
  const test::ProgramResult other = run("analyze --data " + rows + rest);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.errors, HasSubstr("chats.jsonl"));
  EXPECT_EQ(std::count(other.errors.begin(), other.errors.end(), '\n'), 1) << other.errors;
  EXPECT_EQ(run("analyze --data no/such/file" + rest).exit_code, 3);
  EXPECT_EQ(run("analyze --limit 2 --data " + rows + rest).exit_code, 2);
}

}  // namespace
}  // namespace calyrex
