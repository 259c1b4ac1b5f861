// adapter init by the real program: a whole folder, which changes nothing.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/json.h"
#include "tests/cli/run_program.h"

namespace calyrex {
namespace {

using testing::HasSubstr;

const std::string kModel = "tests/golden/models/qwen3";

test::ProgramResult run(const std::string& arguments) {
  return test::run_program(CALYREX_PROGRAM, arguments);
}

class AdapterInit : public testing::TestWithParam<const char*> {};

TEST_P(AdapterInit, WritesAWholeFolderThatIsTheBaseBitForBit) {
  const test::TemporaryFolder folder;
  const std::string output = (folder.path() / "new").string();
  const test::ProgramResult made =
      run("adapter init --model " + kModel + " --output " + output + " --seed 3 --kind " + GetParam());
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  for (const char* name :
       {"adapter_config.json", "adapter_model.safetensors", "chat_template.jinja", "README.md"}) {
    EXPECT_TRUE(std::filesystem::is_regular_file(folder.path() / "new" / name)) << name;
  }
  EXPECT_THAT(test::read_text(folder.path() / "new/README.md"), HasSubstr("None yet: with this adapter"));
  const std::string generate =
      "generate --json --model " + kModel + " --system Kind --prompt Hi --max-new-tokens 8 ";
  const Json base = parse_json(run(generate).output, "base");
  const Json adapted = parse_json(run(generate + "--adapter " + output).output, "adapted");
  EXPECT_EQ(base["token_ids"], adapted["token_ids"]);
  EXPECT_EQ(base["logprobs"], adapted["logprobs"]);
}

INSTANTIATE_TEST_SUITE_P(Kinds, AdapterInit,
                         testing::Values("cal --placement [0,2] --set cal.intermediate_size=8",
                                         "parallel_mlp --placement last", "lora --set lora.rank=2"),
                         [](const auto& info) {
                           const std::string words = info.param;
                           return words.substr(0, words.find(' '));
                         });

TEST(AdapterInitMistakes, AreOneLineAndWriteNothing) {
  const test::TemporaryFolder folder;
  const std::string output = (folder.path() / "new").string();
  const std::pair<std::string, std::string> cases[] = {
      {"--placement lats8th", "late8th"},
      {"--placement [0,9]", "from 0 to 2"},
      {"--set cal.intermediat_size=8", "did you mean 'intermediate_size'?"},
      {"--set cal.intermediate_size=-1", "intermediate_size"},
      {"--kind lora --placement last", "--placement last: LoRA works in the layers themselves"},
      {"--kind full", "there is no adapter to begin with"},
      {"--kind dora", "'adapter.kind' must be one of"},
  };
  for (const auto& [arguments, message] : cases) {
    const test::ProgramResult result =
        run("adapter init --model " + kModel + " --output " + output + " " + arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_THAT(result.errors, HasSubstr(message)) << arguments;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_FALSE(std::filesystem::exists(output)) << arguments;
  }
}

}  // namespace
}  // namespace calyrex
