#include "calyrex/cli/bench_measure.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/lm/scripted_model.h"

namespace calyrex::cli {
namespace {

using std::chrono::milliseconds;

lm::ScriptedOptions answers_of(const std::vector<size_t>& lengths, milliseconds delay) {
  auto next = std::make_shared<size_t>(0);
  return {
      .answer =
          [=](const lm::GenerateRequest&) { return std::string(lengths[(*next)++ % lengths.size()], 'x'); },
      .logprob = {},
      .token_delay = delay};
}

TEST(MeasureGeneration, CountsTokensAndTimesDecodingWhileAllRun) {
  lm::ScriptedModel model(answers_of({20, 40}, milliseconds(2)));
  const GenerationTimes times =
      measure_generation(model, {.requests = 2, .prompt_tokens = 5, .new_tokens = 100, .adapter = {}});
  EXPECT_EQ(times.prompt_tokens, 10);
  EXPECT_GE(times.completion_tokens, 60);
  EXPECT_GT(times.seconds, times.prefill_seconds + times.decode_seconds);
  // The shorter answer ends the window: about 20 tokens of each, not 60 in all.
  EXPECT_GE(times.decode_tokens, 30);
  EXPECT_LE(times.decode_tokens, 45);
  EXPECT_GE(times.decode_seconds, 0.002 * static_cast<double>(times.decode_tokens - 2));
}

TEST(MeasureGeneration, PromptsDifferFromRequestToRequestAndSeedToSeed) {
  std::set<std::vector<TokenId>> prompts;
  lm::ScriptedOptions options;
  options.answer = [&](const lm::GenerateRequest& request) {
    prompts.insert(request.prompt.token_ids);
    return std::string("x");
  };
  lm::ScriptedModel model(options);
  measure_generation(model, {.requests = 3, .prompt_tokens = 16, .new_tokens = 1, .adapter = {}, .seed = 1});
  measure_generation(model, {.requests = 3, .prompt_tokens = 16, .new_tokens = 1, .adapter = {}, .seed = 2});
  EXPECT_EQ(prompts.size(), 6u);
}

TEST(MeasureGeneration, ErrorOfARequestIsThrown) {
  lm::ScriptedOptions options;
  options.answer = [](const lm::GenerateRequest&) -> std::string { fail(ErrorCode::kIo, "broken"); };
  lm::ScriptedModel model(options);
  EXPECT_THROW(measure_generation(model, {.requests = 2, .adapter = {}}), Error);
}

TEST(MeasureGeneration, RefusedRequestEndsTheOthers) {
  lm::ScriptedOptions options = answers_of({1000}, milliseconds(1));
  options.max_waiting = 1;
  lm::ScriptedModel model(options);
  EXPECT_THROW(measure_generation(model, {.requests = 8, .new_tokens = 1000, .adapter = {}}), Error);
  EXPECT_EQ(model.counters().requests_running, 0);
}

TEST(SummarizeRates, MedianAndRange) {
  EXPECT_EQ(summarize_rates({3.0, 1.0, 2.0}).dump(),
            R"({"median":2.0,"low":1.0,"high":3.0,"runs":[3.0,1.0,2.0]})");
  EXPECT_EQ(summarize_rates({4.0, 1.0}).at("median"), 2.5);
}

TEST(PeakMemory, GrowsWithWhatIsTouched) {
  const double before = peak_memory_mib();
  std::vector<char> block(size_t{256} << 20, 'x');
  EXPECT_GE(peak_memory_mib() + block[0] * 0.0, before + 100.0);
}

}  // namespace
}  // namespace calyrex::cli
