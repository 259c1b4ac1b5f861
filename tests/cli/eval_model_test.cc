// `calyrex eval run` over models: base and adapters in one go, the context's limit, stops and how it goes on.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/json.h"
#include "tests/cli/run_program.h"

namespace calyrex::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kLlama = "--model tests/golden/models/llama --chat-template chatml --dtype float32 ";
const std::string kAdapter = "tests/golden/model/llama.default";
const std::string kTask = "run gsm8k --shots 1 --max-new-tokens 8 ";

ProgramResult eval(const std::string& arguments) { return run_program(CALYREX_PROGRAM, "eval " + arguments); }

/// Questions short enough for the tiny models.
std::string short_questions(const TemporaryFolder& folder) {
  folder.write("train.jsonl", "{\"question\": \"1 + 1?\", \"answer\": \"#### 2\"}\n");
  std::string rows;
  for (const char* question : {"2 + 2?", "4 + 3?", "9 - 8?", "5 * 5?"}) {
    rows += std::string("{\"question\": \"") + question + "\", \"answer\": \"#### 4\"}\n";
  }
  folder.write("test.jsonl", rows);
  return "--data " + folder.path().string() + " ";
}

Json results_in(const fs::path& folder) { return Json::parse(read_text(folder / "results.json")); }

std::vector<Json> responses_in(const fs::path& folder) {
  std::vector<Json> responses;
  std::istringstream lines(read_text(folder / "samples.jsonl"));
  for (std::string line; std::getline(lines, line);) responses.push_back(Json::parse(line)["response"]);
  return responses;
}

TEST(EvalModels, BaseAndAdaptersRunTogetherUnderDistinctNames) {
  const TemporaryFolder folder;
  const fs::path twin = folder.path() / "llama.default";
  fs::copy(kAdapter, twin);
  const fs::path output = folder.path() / "out";
  const ProgramResult run =
      eval(kTask + short_questions(folder) + kLlama + "--adapter " + kAdapter + " --adapter " +
           twin.string() + " --adapter " + kAdapter + "@0 --output " + output.string());
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const auto base = responses_in(output / "gsm8k/base");
  ASSERT_EQ(base.size(), 4u);
  const auto adapter = responses_in(output / "gsm8k/llama.default");
  EXPECT_NE(adapter, base);
  EXPECT_EQ(responses_in(output / "gsm8k/llama.default-2"), adapter) << "the same adapter in another folder";
  EXPECT_EQ(responses_in(output / "gsm8k/llama.default@0"), base) << "scale 0 is the base";
  const Json results = results_in(output / "gsm8k/llama.default@0");
  EXPECT_EQ(results["adapter"], kAdapter);
  EXPECT_EQ(results["scale"], 0.0);
  EXPECT_EQ(results["model"], "tests/golden/models/llama");
  EXPECT_THAT(run.output, HasSubstr("| metric | base | llama.default | llama.default-2 | llama.default@0 |"));
  EXPECT_FALSE(fs::exists(output / "results.json")) << "several models";
}

TEST(EvalModels, ASingleAdapterIsAlsoCalledAdapter) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "out";
  const std::string command =
      kTask + short_questions(folder) + kLlama + "--adapter " + kAdapter + " --output " + output.string();
  ASSERT_EQ(eval(command).exit_code, 0);
  EXPECT_EQ(responses_in(output / "gsm8k/adapter"), responses_in(output / "gsm8k/llama.default"));
  // Again: nothing is asked, the files are the same.
  const std::string before = read_text(output / "gsm8k/base/results.json");
  ASSERT_EQ(eval(command).exit_code, 0);
  EXPECT_EQ(read_text(output / "gsm8k/base/results.json"), before);
  // Another length of answers is another configuration.
  const ProgramResult other = eval("run gsm8k --shots 1 --max-new-tokens 9 " + short_questions(folder) +
                                   kLlama + "--output " + output.string());
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.errors, HasSubstr("max_new_tokens: 8 there, 9 now"));
}

TEST(EvalModels, QuestionsThatDoNotFitFailTheTask) {
  const TemporaryFolder folder;
  // 256 new tokens and a prompt do not fit into the tiny model's context.
  const ProgramResult run =
      eval("run gsm8k --sample --shots 5 " + kLlama + "--output " + (folder.path() / "out").string());
  EXPECT_EQ(run.exit_code, 1) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("4 samples do not fit into the model's context"));
  EXPECT_EQ(results_in(folder.path() / "out")["not_applicable"], 4);
}

TEST(EvalModels, ChoicesAreScored) {
  const TemporaryFolder folder;
  const ProgramResult run = eval("run mmlu --sample --shots 0 --form raw " + kLlama + "--output " +
                                 (folder.path() / "out").string());
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(results_in(folder.path() / "out")["n"], 4);
}

/// Questions for the default backbone, some seconds of work (a minute for scalar kernels).
class EvalStops : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(".deps/models/SmolLM2-135M-Instruct.Q4_1.gguf"))
      GTEST_SKIP() << "SKIPPED: the default backbone";
    std::string rows;
    const char* target = std::getenv("CALYREX_CPU_TARGET");
    const bool scalar = target != nullptr && std::string_view(target) == "scalar";
    questions_ = scalar ? 12 : 40;
    for (int i = 0; i < questions_; ++i) {
      rows += "{\"question\": \"How much is " + std::to_string(i) + " and 5?\", \"answer\": \"#### " +
              std::to_string(i + 5) + "\"}\n";
    }
    arguments_ = {"eval",
                  "run",
                  "gsm8k",
                  "--data",
                  folder_.write("test.jsonl", rows),
                  "--shots",
                  "0",
                  "--model",
                  "default",
                  "--max-new-tokens",
                  scalar ? "24" : "48",
                  "--output",
                  output_.string()};
  }

  /// Runs until some samples are finished, then sends the signal; says how the program ended.
  int stop_with(int signal) {
    const RunningProgram program(CALYREX_PROGRAM, arguments_);
    for (int i = 0; i < 2400 && lines() < 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return program.signal_and_wait(signal);
  }
  ptrdiff_t lines() const {
    const std::string text = read_text(output_ / "gsm8k/base/samples.jsonl");
    return std::count(text.begin(), text.end(), '\n');
  }
  ProgramResult finish() const {
    std::string command;
    for (const std::string& argument : arguments_) command += " " + argument;
    return run_program(CALYREX_PROGRAM, command);
  }

  TemporaryFolder folder_;
  fs::path output_ = folder_.path() / "out";
  std::vector<std::string> arguments_;
  int questions_ = 0;
};

TEST_F(EvalStops, InterruptsKeepWhatIsDoneAndTheRunGoesOn) {
  EXPECT_EQ(stop_with(SIGINT), 130);
  const ptrdiff_t kept = lines();
  EXPECT_GE(kept, 1);
  const ProgramResult run = finish();
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(results_in(output_)["n"], questions_);
}

TEST_F(EvalStops, AKilledRunGoesOn) {
  EXPECT_EQ(stop_with(SIGKILL), -1);
  const ProgramResult run = finish();
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(results_in(output_)["n"], questions_);
  EXPECT_EQ(responses_in(output_).size(), static_cast<size_t>(questions_));
}

}  // namespace
}  // namespace calyrex::test
