// generate, chat and score by the real program on tiny random models.
#include <chrono>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/json.h"
#include "tests/cli/run_program.h"

namespace calyrex {
namespace {

using testing::HasSubstr;

// A tiny model with a template of its own, and adapters for the llama one.
const std::string kModel = "tests/golden/models/qwen3";
const std::string kLlama = "tests/golden/models/llama --chat-template chatml";
const std::string kAdapter = "tests/golden/model/llama.default";

test::ProgramResult run(const std::string& arguments, const std::string& input = "") {
  return test::run_program(CALYREX_PROGRAM, arguments, input);
}

Json generate_json(const std::string& arguments) {
  const test::ProgramResult result = run("generate --json " + arguments);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  return parse_json(result.output, "output");
}

TEST(Generate, JsonSaysEverything) {
  const Json json = generate_json("--model " + kModel + " --system Kind --prompt Hi --max-new-tokens 5");
  EXPECT_GE(json["token_ids"].size(), 1u);
  EXPECT_LE(json["token_ids"].size(), 5u);
  EXPECT_EQ(json["logprobs"].size(), json["token_ids"].size());
  EXPECT_EQ(json["usage"]["completion_tokens"], json["token_ids"].size());
  EXPECT_EQ(json["usage"]["prompt_tokens"], json["prompt_token_ids"].size());
  EXPECT_EQ(json["system_spans"].size(), 1u);
  EXPECT_TRUE(json["text"].is_string());
  EXPECT_TRUE(json["adapter"].is_null());
}

TEST(Generate, TextOnStandardOutputIsTheJsonText) {
  const std::string arguments = "--model " + kModel + " --prompt Hi --max-new-tokens 6";
  const test::ProgramResult result = run("generate " + arguments);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, generate_json(arguments)["text"].get<std::string>() + "\n");
}

TEST(Generate, SeedsAndAdapters) {
  const std::string sampled =
      "--model " + kLlama + " --system Kind --prompt Hi --temperature 2 --max-new-tokens 8 ";
  EXPECT_EQ(generate_json(sampled + "--seed 1")["token_ids"],
            generate_json(sampled + "--seed 1")["token_ids"]);
  EXPECT_NE(generate_json(sampled + "--seed 1")["token_ids"],
            generate_json(sampled + "--seed 2")["token_ids"]);
  const std::string greedy =
      "--model " + kLlama + " --dtype float32 --system Kind --prompt Hi --max-new-tokens 8 ";
  const Json base = generate_json(greedy), zero = generate_json(greedy + "--adapter " + kAdapter + "@0");
  EXPECT_EQ(base["logprobs"], zero["logprobs"]);
  EXPECT_NE(base["logprobs"], generate_json(greedy + "--adapter " + kAdapter)["logprobs"]);
}

TEST(Generate, MessagesFile) {
  const test::TemporaryFolder folder;
  const std::string file = folder.write(
      "chat.json", R"([{"role": "system", "content": "Kind"}, {"role": "user", "content": "Hi"}])");
  const std::string rest = " --model " + kModel + " --max-new-tokens 4";
  EXPECT_EQ(generate_json("--messages " + file + rest)["prompt_token_ids"],
            generate_json("--system Kind --prompt Hi" + rest)["prompt_token_ids"]);
}

TEST(Generate, AModelWithoutTemplateNamesTheFlag) {
  const test::TemporaryFolder folder;
  for (const char* file : {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}) {
    std::filesystem::copy_file(std::filesystem::path("tests/golden/models/llama") / file,
                               folder.path() / file);
  }
  const std::string model = folder.path().string();
  const test::ProgramResult result = run("generate --model " + model + " --prompt Hi");
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_EQ(
      run("generate --max-new-tokens 2 --model " + model + " --prompt Hi --chat-template chatml").exit_code,
      0);
  EXPECT_THAT(result.errors, HasSubstr("--chat-template"));
}

TEST(Generate, WeightsThatAreNotFiniteExitFour) {
  const test::ProgramResult result =
      run("generate --model " + kLlama + " --adapter " + kAdapter + "@1e308 --prompt Hi --max-new-tokens 2");
  EXPECT_EQ(result.exit_code, 4) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("the logits are not finite"));
  EXPECT_THAT(result.errors, HasSubstr("lower the scale"));
}

TEST(Generate, APromptLongerThanTheContextExitsTwo) {
  const test::ProgramResult result =
      run("generate --model " + kModel + " --prompt " + std::string(5000, 'x'));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("context of 256"));
}

TEST(Chat, WorksOverAPipe) {
  const test::ProgramResult result =
      run("chat --model " + kLlama + " --adapter " + kAdapter + " --max-new-tokens 4",
          "/system Be kind.\nHi\n/both\nAgain\n/quit\nnever read\n");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("System message: a span of"));
  EXPECT_THAT(result.errors, HasSubstr("adapter (strength 1):"));
  EXPECT_THAT(result.errors, testing::Not(HasSubstr("> ")));
}

TEST(Chat, AMessageBeyondTheLimitIsNotSentAndTheChatGoesOn) {
  const test::ProgramResult result = run("chat --model " + kLlama + " --max-new-tokens 4",
                                         std::string((size_t{1} << 20) + 5000, 'x') + "\nHi\n/quit\n");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("this one was not sent"));
  EXPECT_THAT(result.errors, HasSubstr("[span 0 tokens"));
}

TEST(Chat, CtrlCStopsAnAnswerAndTwiceLeaves) {
  const test::RunningProgram chat(
      CALYREX_PROGRAM, {"chat", "--model", "tests/golden/models/llama", "--chat-template", "chatml"});
  // Time to open the model, so that chat's own handler is there; then once at the prompt, and once more.
  std::this_thread::sleep_for(std::chrono::seconds(4));
  chat.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(chat.signal_and_wait(SIGINT), 130);
}

TEST(Score, WritesRowsInOrderInTheFixedFormat) {
  const test::TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 40; ++i) {
    const std::string filler(static_cast<size_t>(i * 7 % 40), 'a');
    rows +=
        i % 2 == 0
            ? R"({"id": )" + std::to_string(i) + R"(, "prompt": "x )" + filler +
                  R"(", "completion": " answer", "spans": [[0, 1]]})" + "\n"
            : R"({"id": ")" + std::to_string(i) +
                  R"(", "messages": [{"role": "system", "content": "Kind"}, {"role": "user", "content": ")" +
                  filler + R"("}, {"role": "assistant", "content": "Yes."}]})" + "\n";
  }
  const std::string input = folder.write("rows.jsonl", rows);
  const std::string output = (folder.path() / "out.jsonl").string();
  const test::ProgramResult result =
      run("score --dtype float32 --model " + kModel + " --input " + input + " --output " + output);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, "");
  int i = 0;
  for_each_json_line(output, [&](int64_t, Json row) {
    ASSERT_EQ(row.size(), 5u);
    EXPECT_EQ(row["id"], i % 2 == 0 ? Json(i) : Json(std::to_string(i)));
    const auto from = row["score_from"].get<size_t>();
    EXPECT_GE(from, 1u);
    EXPECT_EQ(row["logprobs"].size(), row["token_ids"].size() - from);
    EXPECT_EQ(row["system_spans"].size(), 1u);
    if (i % 2 == 0) {
      EXPECT_EQ(row["system_spans"][0], Json({0, 1}));
    }
    for (const Json& logprob : row["logprobs"]) EXPECT_LE(logprob.get<double>(), 0.0);
    ++i;
  });
  EXPECT_EQ(i, 40);
}

TEST(Score, ACompletionWithoutATokenBeforeItNamesTheLine) {
  const test::TemporaryFolder folder;
  const std::string rows = folder.write("rows.jsonl", R"({"prompt": "", "completion": "b"})");
  const test::ProgramResult result =
      run("score --model tests/golden/models/qwen2 --input " + rows + " --output -");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("rows.jsonl:1: scoring would begin at token 0 of 1"));
  EXPECT_THAT(result.errors, HasSubstr("give a longer prompt"));
}

TEST(Score, SpansOutsideTheRowNameTheLine) {
  const test::TemporaryFolder folder;
  const std::string input =
      folder.write("rows.jsonl", R"({"prompt": "a", "completion": "b"})"
                                 "\n"
                                 R"({"prompt": "a", "completion": "b", "spans": [[5, 900]]})"
                                 "\n");
  const test::ProgramResult result = run("score --model " + kModel + " --input " + input + " --output " +
                                         (folder.path() / "out.jsonl").string());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("rows.jsonl:2"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "out.jsonl"));
}

TEST(Train, NothingIsLoggedIntoItsFilesWhenStandardDescriptorsAreClosed) {
  const test::TemporaryFolder folder;
  const std::string rows = folder.write(
      "rows.jsonl",
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  const std::string output = (folder.path() / "run").string();
  const std::string config =
      folder.write("c.yaml", "model: tests/golden/models/llama\ndata: {train: [{path: " + rows +
                                 "}]}\ntrain: {max_steps: 3}\noutput: " + output + "\n");
  const test::ProgramResult result =
      test::run_program("sh -c '" CALYREX_PROGRAM " train " + config + " <&- >&- 2>&-'", "");
  EXPECT_EQ(result.exit_code, 0);
  std::istringstream metrics(test::read_text(output + "/metrics.jsonl"));
  int lines = 0;
  for (std::string line; std::getline(metrics, line); ++lines) EXPECT_EQ(line.front(), '{') << line;
  EXPECT_EQ(lines, 3);
}

TEST(Version, VerboseTellsOfTheTorchPart) {
  const test::ProgramResult result = run("--version --verbose");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("\"torch\": \"2."));
}

}  // namespace
}  // namespace calyrex
