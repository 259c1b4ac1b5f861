// The real program without its torch part: what it prints, its exit codes, and how fast it starts.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run_program.h"

namespace calyrex {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

test::ProgramResult run(const std::string& arguments) {
  return test::run_program(CALYREX_PROGRAM, arguments);
}

int64_t count_lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(Program, VersionAndHelp) {
  const test::ProgramResult version = run("--version");
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.output, StartsWith("calyrex "));
  EXPECT_EQ(version.errors, "");
  const test::ProgramResult help = run("--help");
  EXPECT_EQ(help.exit_code, 0);
  for (const char* name : {"generate", "chat", "score", "render", "data", "adapter", "model"}) {
    EXPECT_THAT(help.output, HasSubstr(name));
  }
  EXPECT_THAT(run("score --help").output, HasSubstr("--input"));
}

TEST(Program, StartsInstantly) {
  // The best of several: other programs may run on the machine.
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run("--version");
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  RecordProperty("seconds", std::to_string(best));
  EXPECT_LT(best, 0.05);
}

TEST(Program, UsageErrorsAreOneLineAndExitTwo) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "no command given"},
      {"scoer", "did you mean 'score'?"},
      {"scoer --help", "did you mean 'score'?"},
      {"adapter infoo", "did you mean 'info'?"},
      {"--bogus", "--bogus"},
      {"score --input a.jsonl", "--output is required"},
      {"generate --prompt x --temperature warm", "temperature"},
      {"generate", "--prompt"},
      {"generate --prompt x --messages m.json", "leave out"},
      {"generate --prompt x --dtype float8", "float8"},
      {"generate --prompt x --adapter some/where@much", "no scale"},
      {"generate --prompt x --adapter \"\"", "--adapter: an empty word is no value"},
      {"generate --prompt x --adapter @1", "--adapter @1: no folder before the @"},
      {"generate --prompt x --seed -1", "--seed: '-1' is no whole number from 0 to"},
      {"generate --prompt x --max-new-tokens 99999999999999999999", "is no whole number from"},
      {"demo --seed -1", "--seed: '-1' is no whole number from 0 to"},
      {"demo --max-new-tokens 0", "--max-new-tokens: '0' is no whole number from 1 to"},
      {"demo --steps 0", "--steps: '0' is no whole number from 1 to"},
      {"data build rules --output x --format csv", "--format: 'csv' is none of messages, sharegpt, alpaca"},
      {"data stats x --layout csv", "--layout: 'csv' is none of auto, messages"},
      {"adapter init --output x --seed -1", "'-1' is no whole number from 0 to"},
      {"data build rules --output x --seed 18446744073709551616",
       "'18446744073709551616' is no whole number"},
      {"data build rules --output tests/golden/README.md", "exists and is no folder"},
      {"score --input tests/golden/README.md --output tests/golden/README.md", "is the input"},
  };
  for (const auto& [arguments, expected] : cases) {
    const test::ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_THAT(result.errors, StartsWith("error: ")) << arguments;
    EXPECT_THAT(result.errors, HasSubstr(expected)) << arguments;
    EXPECT_EQ(count_lines(result.errors), 1) << arguments << ": " << result.errors;
    EXPECT_EQ(result.output, "") << arguments;
  }
}

TEST(Program, BadScoreRowsAreToldByLineBeforeAnyModelIsOpened) {
  const test::TemporaryFolder folder;
  const std::pair<std::string, std::string> cases[] = {
      {"{\"id\": 1, \"prompt\": \"a\", \"completion\": \"b\"}\n{\"id\": 2}\n",
       "rows.jsonl:2: expected \"messages\""},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n",
       "rows.jsonl:1: the last message must be"},
      {"\n{\"prompt\": \"a\"}\n", "rows.jsonl:2: expected a string \"completion\""},
      {"{\"prompt\": \"a\", \"completion\": \"\"}\n", "rows.jsonl:1: \"completion\" is empty"},
      {"{\"prompt\": \"a\", \"completion\": \"b\", \"spans\": [1]}\n", "rows.jsonl:1: \"spans\" must be"},
      {R"({"messages": [{"role": "assistant", "content": "a"}], "spans": [[0, 1]]})",
       "rows.jsonl:1: \"messages\" and \"spans\" in one row"},
      {R"({"messages": [{"role": "assistant", "content": "a"}], "tools": 3})", "rows.jsonl:1: tools must be"},
      {"{broken\n", "rows.jsonl:1"},
      {"[1]\n", "rows.jsonl:1: expected a JSON object"},
      {"", "no rows"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string input = folder.write("rows.jsonl", text);
    const std::string output = (folder.path() / "out.jsonl").string();
    const test::ProgramResult result =
        run("score --model no/such/model/here --input " + input + " --output " + output);
    EXPECT_EQ(result.exit_code, 2) << text;
    EXPECT_THAT(result.errors, HasSubstr(expected)) << text;
    EXPECT_EQ(count_lines(result.errors), 1) << result.errors;
    EXPECT_FALSE(std::filesystem::exists(output));
  }
}

TEST(Program, MissingFilesExitThree) {
  for (const std::string arguments :
       {"score --input no/such/rows.jsonl --output x.jsonl",
        "generate --prompt x --model no/such/folder/model.gguf",
        "generate --prompt x --model tests/golden/models/llama --adapter no/such/adapter",
        "generate --messages no/such/messages.json"}) {
    const test::ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 3) << arguments << ": " << result.errors;
    EXPECT_EQ(count_lines(result.errors), 1) << result.errors;
  }
}

TEST(Program, AdapterOfAnotherModelExitsFour) {
  const test::ProgramResult result =
      run("generate --prompt x --model tests/golden/models/qwen2 --adapter tests/golden/model/llama.default");
  EXPECT_EQ(result.exit_code, 4) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("llama.default"));
}

/// A line of shell, with whatever redirections it has.
test::ProgramResult shell(const std::string& line) { return test::run_program("sh -c '" + line + "'", ""); }

TEST(Program, AHyphenIsStandardInput) {
  const std::pair<const char*, const char*> cases[] = {
      {"score --model no/such/model/here --input - --output x.jsonl", "/dev/stdin:1: expected a JSON object"},
      {"render --model no/such/model/here --messages -", "-: messages[0]: not an object"},
      {"render --messages -", "-: messages[0]: not an object"},  // --model has a default
      {"generate --model no/such/model/here --messages -", "-: messages[0]: not an object"},
  };
  for (const auto& [arguments, expected] : cases) {
    const test::ProgramResult result = shell(std::string("echo [1] | " CALYREX_PROGRAM " ") + arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_THAT(result.errors, HasSubstr(expected)) << arguments;
  }
}

TEST(Program, OutputThatCannotBeWrittenIsAnError) {
  for (const std::string arguments : {"data build rules --list", "--help"}) {
    for (const char* target : {">/dev/full", ">&-"}) {
      const test::ProgramResult result = shell(CALYREX_PROGRAM " " + arguments + target);
      EXPECT_EQ(result.exit_code, 70) << arguments;
      EXPECT_EQ(count_lines(result.errors), 1) << result.errors;
      EXPECT_EQ(result.errors.find("internal error"), std::string::npos) << result.errors;
    }
  }
}

TEST(Program, ClosedStandardDescriptorsDoNotEndItBadly) {
  EXPECT_EQ(shell(CALYREX_PROGRAM " scoer <&- >&- 2>&-").exit_code, 2);
  EXPECT_EQ(shell(CALYREX_PROGRAM " scoer 2>/dev/full").exit_code, 2);
}

TEST(Program, AnErrorIsOneLineWhateverItQuotes) {
  const test::TemporaryFolder folder;
  const std::string chat = folder.write("chat.json", R"([{"role": "user", "content": "a"}])");
  const std::string jinja = folder.write("t.jinja", R"({{ raise_exception("two\nlines \x1b[31m") }})");
  const test::ProgramResult result =
      run("render --model tests/golden/models/llama --messages " + chat + " --chat-template " + jinja);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("refuses these messages: two lines"));
  EXPECT_EQ(count_lines(result.errors), 1) << result.errors;
  EXPECT_EQ(result.errors.find('\x1b'), std::string::npos);
}

TEST(Program, SignalsExitWith130) {
  const test::TemporaryFolder folder;
  for (const int signal : {SIGINT, SIGTERM}) {
    // Far more rows than can be made before the signal comes.
    const test::RunningProgram program(CALYREX_PROGRAM, {"data", "build", "rules", "--rows", "1000000",
                                                         "--output", (folder.path() / "data").string()});
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(program.signal_and_wait(signal), 130) << "signal " << signal;
  }
}

}  // namespace
}  // namespace calyrex
