// calyrex demo by the real program on a tiny random model: what it leaves, and that it repeats itself.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/json.h"
#include "tests/cli/run_program.h"

namespace calyrex {
namespace {

using testing::HasSubstr;

/// A folder for demos, and a tiny model whose context holds their questions.
class Demo : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy("tests/golden/models/qwen3", folder_.path() / "model");
    Json config = parse_json(test::read_text(folder_.path() / "model/config.json"), "config.json");
    config["max_position_embeddings"] = 2048;
    folder_.write("model/config.json", to_json_text(config));
  }

  std::filesystem::path output(const std::string& name) const { return folder_.path() / name; }

  test::ProgramResult demo(const std::string& name, const std::string& size = "--rows 60 --steps 2") const {
    return test::run_program(CALYREX_PROGRAM, "demo --model " + output("model").string() +
                                                  " --test-rows 8 --max-new-tokens 4 --rules "
                                                  "upper_case,no_commas,hashtag --output " +
                                                  output(name).string() + " " + size);
  }

  test::TemporaryFolder folder_;
};

TEST_F(Demo, LeavesAdapterTableAndPageAndRepeatsTheTraining) {
  const std::filesystem::path first = output("a"), second = output("b");
  const test::ProgramResult result = demo("a");
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  for (const char* text : {"Rules in training", "Capital letters only", "Rules never trained", "hashtag",
                           "Adapter minus base", "adapter", "calyrex chat --model"}) {
    EXPECT_THAT(result.output, HasSubstr(text));
  }
  for (const char* name : {"adapter_model.safetensors", "answers.jsonl", "report.html", "demo.yaml"}) {
    EXPECT_TRUE(std::filesystem::is_regular_file(first / name)) << name;
  }
  const Json report = parse_json(test::read_text(first / "demo.json"), "demo.json");
  EXPECT_EQ(report["adapter"]["rules"].size(), 3u);
  EXPECT_EQ(report["training"]["steps"], 2);
  // Training repeats to the bit. Answers of this model, which is not quantised, depend on the batch in their
  // last bits.
  ASSERT_EQ(demo("b").exit_code, 0);
  const std::string weights = test::read_text(first / "adapter_model.safetensors");
  EXPECT_EQ(test::read_text(second / "adapter_model.safetensors"), weights);
  EXPECT_EQ(test::read_text(second / "data/test.jsonl"), test::read_text(first / "data/test.jsonl"));
  // Where it is done it is only graded anew.
  const test::ProgramResult graded = demo("a");
  EXPECT_THAT(graded.errors, HasSubstr("is finished"));
  EXPECT_THAT(graded.output, HasSubstr("Rules in training"));
  EXPECT_EQ(test::read_text(first / "adapter_model.safetensors"), weights);
}

TEST_F(Demo, OtherSettingsAreRefusedBeforeAnythingIsReplaced) {
  ASSERT_EQ(demo("a").exit_code, 0);
  const std::string rows = test::read_text(output("a") / "data/train.jsonl");
  const std::string settings = test::read_text(output("a") / "demo.yaml");
  const std::pair<std::string, std::string> cases[] = {
      {"--rows 60 --steps 2 --seed 1", "(train.seed: 0 -> 1; the training rows)"},
      {"--rows 61 --steps 2", "(the training rows)"},
      {"--rows 60 --steps 3", "(train.max_steps: 2 -> 3)"}};
  for (const auto& [arguments, keys] : cases) {
    const test::ProgramResult result = demo("a", arguments);
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(keys));
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_EQ(test::read_text(output("a") / "data/train.jsonl"), rows);
    EXPECT_EQ(test::read_text(output("a") / "demo.yaml"), settings);
  }
  const test::ProgramResult anew = demo("a", "--rows 60 --steps 2 --seed 1 --restart");
  EXPECT_EQ(anew.exit_code, 0) << anew.errors;
  EXPECT_NE(test::read_text(output("a") / "data/train.jsonl"), rows);
}

}  // namespace
}  // namespace calyrex
