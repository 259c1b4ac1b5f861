// What every language model keeps to, as one suite that runs over each implementation (tests/lm: the scripted
// model, tests/infer: the engine).
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/lm/language_model.h"

namespace calyrex::lm {

struct ContractCase {
  std::string name;
  std::function<std::unique_ptr<LanguageModel>()> open;
  std::string adapter_path;  // a folder that load_adapter() accepts
};

class LanguageModelContract : public testing::TestWithParam<ContractCase> {
 protected:
  void SetUp() override { model_ = GetParam().open(); }

  static GenerateRequest request(const std::string& text, int64_t max_new_tokens = 8) {
    GenerateRequest request;
    request.prompt.text = text;
    request.max_new_tokens = max_new_tokens;
    return request;
  }

  static ErrorCode code_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorCode::kInternal;
  }

  std::unique_ptr<LanguageModel> model_;
};

TEST_P(LanguageModelContract, EventsComeInOrderAndEndOnce) {
  std::promise<FinishEvent> ended;
  std::vector<TokenEvent> tokens;
  int finishes = 0;
  EventHandler handler;
  handler.on_token = [&](const TokenEvent& event) {
    EXPECT_EQ(finishes, 0);
    tokens.push_back(event);
  };
  handler.on_finish = [&](const FinishEvent& event) {
    if (++finishes == 1) ended.set_value(event);
  };
  model_->submit(request("abcabcabc", 5), handler);
  const FinishEvent finish = ended.get_future().get();
  model_.reset();  // whatever else would come has come
  EXPECT_EQ(finishes, 1);
  EXPECT_EQ(finish.error, nullptr);
  EXPECT_EQ(finish.usage.completion_tokens, static_cast<int64_t>(tokens.size()));
  EXPECT_GE(finish.usage.prompt_tokens, 1);
  EXPECT_LE(tokens.size(), 5u);
  if (finish.reason == FinishReason::kLength) {
    EXPECT_EQ(tokens.size(), 5u);
  }
}

TEST_P(LanguageModelContract, ManyRequestsAnswerInOrderAsAlone) {
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 20; ++i)
    requests.push_back(request(std::string(static_cast<size_t>(i + 1), 'a') + "bc", 6));
  std::vector<Completion> alone;
  for (const GenerateRequest& one : requests) alone.push_back(generate_all(*model_, {one}).at(0));
  int64_t reported = 0;
  const std::vector<Completion> together =
      generate_all(*model_, requests, [&](int64_t done) { reported = done; });
  ASSERT_EQ(together.size(), requests.size());
  EXPECT_EQ(reported, 20);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(together[i].token_ids, alone[i].token_ids) << i;
    EXPECT_EQ(together[i].text, alone[i].text) << i;
  }
}

TEST_P(LanguageModelContract, BadValuesAreRefusedInSubmit) {
  const std::vector<std::function<void(GenerateRequest&)>> faults = {
      [](GenerateRequest& r) { r.sampling.temperature = -1.0; },
      [](GenerateRequest& r) { r.sampling.temperature = std::numeric_limits<double>::quiet_NaN(); },
      [](GenerateRequest& r) { r.sampling.top_p = 0.0; },
      [](GenerateRequest& r) { r.sampling.top_k = -1; },
      [](GenerateRequest& r) { r.sampling.min_p = 1.5; },
      [](GenerateRequest& r) { r.sampling.repetition_penalty = 0.0; },
      [](GenerateRequest& r) { r.sampling.logit_bias[-1] = 1.0; },
      [](GenerateRequest& r) { r.max_new_tokens = 0; },
      [](GenerateRequest& r) { r.top_logprobs = 21; },
      [](GenerateRequest& r) { r.stop = {""}; },
      [](GenerateRequest& r) { r.adapter.scale = std::numeric_limits<double>::infinity(); },
      [](GenerateRequest& r) { r.prompt = {}; },
      [](GenerateRequest& r) {
        r.prompt = {};
        r.prompt.token_ids = {1 << 20};
      },
      [](GenerateRequest& r) {
        r.prompt.system_spans = {{0, 1000000}};
      },
      [](GenerateRequest& r) {
        r.prompt.system_spans = {{1, 1}};
      },
      [](GenerateRequest& r) { r.prompt.text = std::string(20000, 'x'); },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    GenerateRequest bad = request("abc");
    faults[i](bad);
    EXPECT_EQ(code_of([&] { model_->submit(bad, {}); }), ErrorCode::kInvalidArgument) << "fault " << i;
  }
}

TEST_P(LanguageModelContract, AdaptersHaveNames) {
  GenerateRequest unknown = request("abc");
  unknown.adapter.name = "a";
  EXPECT_EQ(code_of([&] { model_->submit(unknown, {}); }), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { model_->unload_adapter("a"); }), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { model_->load_adapter("a", "no/such/folder"); }), ErrorCode::kNotFound);
  const AdapterInfo info = model_->load_adapter("a", GetParam().adapter_path);
  EXPECT_EQ(info.name, "a");
  EXPECT_EQ(model_->load_adapter("b", GetParam().adapter_path).content_sha256, info.content_sha256);
  EXPECT_EQ(model_->adapters().size(), 2u);
  EXPECT_NO_THROW(generate_all(*model_, {unknown}));
  model_->unload_adapter("a");
  EXPECT_EQ(code_of([&] { model_->submit(unknown, {}); }), ErrorCode::kNotFound);
  EXPECT_EQ(model_->adapters().size(), 1u);
}

TEST_P(LanguageModelContract, CancelEndsARequestAndUnknownIdsAreIgnored) {
  model_->cancel(123456);
  std::promise<FinishReason> ended;
  std::promise<void> started;
  bool first = true;
  EventHandler handler;
  handler.on_token = [&](const TokenEvent&) {
    if (std::exchange(first, false)) started.set_value();
  };
  handler.on_finish = [&](const FinishEvent& event) {
    if (std::exchange(first, false)) started.set_value();
    ended.set_value(event.reason);
  };
  const RequestId id = model_->submit(request(std::string(150, 'a'), 1000), handler);
  started.get_future().get();
  model_->cancel(id);
  const FinishReason reason = ended.get_future().get();
  // An answer that ended by itself before the cancel arrived is as good.
  EXPECT_TRUE(reason == FinishReason::kCancelled || reason == FinishReason::kStop ||
              reason == FinishReason::kLength);
  model_->cancel(id);
}

TEST_P(LanguageModelContract, ClosingCancelsWhatIsUnfinished) {
  std::vector<FinishReason> reasons;
  EventHandler handler;
  handler.on_finish = [&](const FinishEvent& event) { reasons.push_back(event.reason); };
  for (int i = 0; i < 10; ++i) model_->submit(request(std::string(100, 'a'), 1000), handler);
  model_.reset();
  EXPECT_EQ(reasons.size(), 10u);
}

TEST_P(LanguageModelContract, ScoresBelongToTheCompletion) {
  ScoreRequest score;
  score.prompt.text = "abc abc ";
  score.completion = "abc";
  const ScoreRequest ids = model_->tokenize(score);
  const ScoreResult result = model_->score(score).get();
  EXPECT_EQ(result.token_ids, ids.prompt.token_ids);
  EXPECT_EQ(result.score_from, ids.score_from);
  EXPECT_GE(result.score_from, 1);
  ASSERT_EQ(result.logprobs.size(), result.token_ids.size() - static_cast<size_t>(result.score_from));
  EXPECT_EQ(result.greedy.size(), result.logprobs.size());
  for (const double logprob : result.logprobs) EXPECT_LE(logprob, 0.0);
  EXPECT_EQ(model_->score(ids).get().logprobs.size(), result.logprobs.size());

  score.completion = "";
  EXPECT_EQ(code_of([&] { model_->score(score); }), ErrorCode::kInvalidArgument);
  score = {};
  score.prompt.token_ids = {97, 98};
  for (const int64_t from : {-1, 0, 2, 5}) {
    score.score_from = from;
    EXPECT_EQ(code_of([&] { model_->score(score); }), ErrorCode::kInvalidArgument) << from;
  }
}

TEST_P(LanguageModelContract, CountersReturnToRest) {
  generate_all(*model_, {request("abc"), request("abcd")});
  Counters counters = model_->counters();
  EXPECT_EQ(counters.requests_finished, 2);
  EXPECT_GE(counters.prompt_tokens, 2);
  EXPECT_GE(counters.completion_tokens, 2);
  EXPECT_GT(model_->info().max_positions, 0);
  EXPECT_GT(model_->info().vocab_size, 0);
}

}  // namespace calyrex::lm
