#include "calyrex/lm/scripted_model.h"

#include "tests/lm/contract.h"

namespace calyrex::lm {
namespace {

INSTANTIATE_TEST_SUITE_P(Scripted, LanguageModelContract,
                         testing::Values(ContractCase{
                             .name = "scripted",
                             .open = [] { return std::make_unique<ScriptedModel>(); },
                             .adapter_path = "tests/lm"}),
                         [](const auto& info) { return info.param.name; });

GenerateRequest chat(const std::string& system, const std::string& user) {
  GenerateRequest request;
  if (!system.empty()) request.prompt.messages.push_back({.role = "system", .content = system});
  request.prompt.messages.push_back({.role = "user", .content = user});
  return request;
}

TEST(ScriptedModel, EchoesAndCounts) {
  ScriptedModel model;
  const Completion completion = generate_all(model, {chat("Be kind.", "Hello")}).at(0);
  EXPECT_EQ(completion.text, "Hello");
  EXPECT_EQ(completion.reason, FinishReason::kStop);
  EXPECT_EQ(completion.usage.span_tokens, 8);
  EXPECT_EQ(completion.usage.completion_tokens, 5);
}

TEST(ScriptedModel, AnswersAsScriptedAndStopsAtStopStrings) {
  ScriptedModel model({.answer = [](const GenerateRequest& request) {
    return request.adapter.name.empty() ? "base END more" : "adapter END more";
  }});
  model.load_adapter("a", "tests/lm");
  GenerateRequest request = chat("", "Hi");
  request.stop = {"END"};
  EXPECT_EQ(generate_all(model, {request}).at(0).text, "base ");
  request.adapter.name = "a";
  EXPECT_EQ(generate_all(model, {request}).at(0).text, "adapter ");
}

TEST(ScriptedModel, FirstErrorIsThrownAfterTheRestHasEnded) {
  ScriptedModel model({.answer = [](const GenerateRequest& request) -> std::string {
    if (request.prompt.messages.back().content == "bad") fail(ErrorCode::kUnavailable, "scripted failure");
    return "a longer answer";
  }});
  // The last request fails at its first step, when those before it have only begun.
  std::vector<GenerateRequest> requests(5, chat("", "good"));
  requests.back() = chat("", "bad");
  try {
    generate_all(model, requests);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  }
  EXPECT_EQ(model.counters().requests_finished, 5);
  EXPECT_EQ(model.counters().completion_tokens, 4 * 15);
}

TEST(ScriptedModel, AFullQueueRefuses) {
  ScriptedModel model({.max_waiting = 2, .token_delay = std::chrono::milliseconds(5)});
  for (int i = 0; i < 2; ++i) model.submit(chat("", std::string(1000, 'a')), {});
  try {
    model.submit(chat("", "a"), {});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  }
}

TEST(ScriptedModel, ScoresACompletionBehindTheGenerationPrompt) {
  ScriptedModel model;
  ScoreRequest request;
  request.prompt.messages = {{.role = "user", .content = "u"}};
  request.completion = " B";
  const Prompt prompt = model.tokenize(request.prompt, {});
  const ScoreResult result = model.score(request).get();
  EXPECT_EQ(result.score_from, static_cast<int64_t>(prompt.token_ids.size()));
  EXPECT_EQ(result.logprobs.size(), 2u);
  EXPECT_EQ(result.token_ids.back(), 'B');
}

}  // namespace
}  // namespace calyrex::lm
