// data build mix, stats and preview by the real program.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/json.h"
#include "tests/cli/run_program.h"

namespace calyrex {
namespace {

using testing::HasSubstr;
using testing::Not;

test::ProgramResult run(const std::string& arguments) {
  return test::run_program(CALYREX_PROGRAM, arguments);
}

constexpr const char* kRows =
    "{\"instruction\": \"Say it.\", \"input\": \"one\", \"output\": \"1\"}\n"
    "{\"question\": \"Two?\", \"answer\": \"<<1+1=2>>2\\n#### 2\"}\n";

TEST(DataMix, WritesAMixtureAndItsManifest) {
  const test::TemporaryFolder folder;
  const std::string rows = folder.write("a.jsonl", kRows);
  const std::string config = folder.write("m.yaml", "sources: [{path: " + rows + ", name: mine}]\n");
  const std::string output = (folder.path() / "out").string();
  const test::ProgramResult result = run("data build mix " + config + " system.share=1 --output " + output);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("mine"));
  EXPECT_THAT(result.output, HasSubstr("system message: 100.0 %"));
  EXPECT_THAT(result.errors, HasSubstr("the sources have 2 usable rows, not the 50000 asked for"));
  EXPECT_THAT(test::read_text(folder.path() / "out" / "train.jsonl"),
              HasSubstr("\"content\":\"2\\n#### 2\""));
  const test::ProgramResult json =
      run("data build mix --source " + rows + " --rows 1 --json --output " + output);
  EXPECT_EQ(parse_json(json.output, "output")["files"]["train.jsonl"]["rows"], 1);
}

TEST(DataMix, ErrorsAreOneLineWithPlace) {
  const test::TemporaryFolder folder;
  const std::string bad = folder.write("bad.jsonl", std::string(kRows) + "{\"instruction\": 3}\n");
  const std::string output = " --output " + (folder.path() / "out").string();
  const std::string misspelt = folder.write("m.yaml", "sources: [{path: " + bad + ", weigth: 2}]\n");
  const std::pair<std::string, std::string> cases[] = {
      {"--source " + bad, "bad.jsonl:3: "},
      {misspelt, "weigth"},
      {"rows=3", "no sources"},
      {"--source " + bad + " --rows=-1", "rows"},
      {"--source " + bad + " system.share=2", "system.share"}};
  for (const auto& [arguments, message] : cases) {
    const test::ProgramResult result = run("data build mix " + arguments + output);
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_THAT(result.errors, HasSubstr(message));
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
  }
  EXPECT_EQ(run("data build mix --source no/such/file" + output).exit_code, 3);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "out"));
}

TEST(DataMix, NeverReplacesItsOwnSource) {
  const test::TemporaryFolder folder;
  const std::string rows =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  const std::string source = folder.write("train.jsonl", rows + "\n");
  const test::ProgramResult result =
      run("data build mix --source " + source + " --rows 1 --output " + folder.path().string());
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("might be replaced"));
}

TEST(DataStats, CountsTokensOfAModel) {
  const test::TemporaryFolder folder;
  const std::string rows = folder.write("a.jsonl", kRows);
  const test::ProgramResult result = run("data stats --json --model tests/golden/models/qwen3 " + rows);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const Json json = parse_json(result.output, "output")[0];
  EXPECT_EQ(json["rows"], 2);
  EXPECT_GT(json["tokens"]["max"], json["label_tokens"]["max"]);
  EXPECT_EQ(json["without_span"], 2);
  EXPECT_THAT(run("data stats " + rows).output, HasSubstr("rows              2"));
}

TEST(DataPreview, MarksSpanAndLabelsWithoutATerminal) {
  const test::TemporaryFolder folder;
  const std::string rows = folder.write(
      "a.jsonl", "{\"system\": \"Be \\u001b[31m kind\", \"instruction\": \"Hi\", \"output\": \"Yo\"}\n");
  const test::ProgramResult result = run("data preview --model tests/golden/models/qwen3 " + rows);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("[system S] Be \\u001b[31m kind\n"));
  EXPECT_THAT(result.output, HasSubstr("[assistant L] Yo\n"));
  EXPECT_THAT(result.output, HasSubstr("[user] Hi\n"));
  EXPECT_THAT(result.output, Not(HasSubstr("\x1b")));
  EXPECT_THAT(run("data preview " + rows).output, HasSubstr("[user] Hi"));
  const test::ProgramResult none = run("data preview --row 2 " + rows);
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.errors, HasSubstr("there is no row 2; it has 1"));
  for (const std::string number : {"0", "-1", "two"}) {
    const test::ProgramResult wrong = run("data preview " + rows + " --row=" + number);
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_THAT(wrong.errors, HasSubstr("'" + number + "' is no whole number from 1 to 9223372036854775807"));
  }
}

TEST(DataPreview, ColoursOnATerminalUnlessRefused) {
  const test::TemporaryFolder folder;
  const std::string rows = folder.write("a.jsonl", kRows);
  const std::string command = std::string(CALYREX_PROGRAM) + " data preview " + rows;
  const auto in_terminal = [&](const std::string& environment) {
    return test::run_program("env", "TERM=xterm " + environment + " script -qec '" + command + "' /dev/null")
        .output;
  };
  if (test::run_program("script", "--version").exit_code != 0) GTEST_SKIP() << "SKIPPED: no program script";
  EXPECT_THAT(in_terminal("NO_COLOR="), HasSubstr("\x1b[36m"));
  EXPECT_THAT(in_terminal("NO_COLOR=1"), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace calyrex
