// The engine's threading, scheduling and bookkeeping over a fake executor.
#include "calyrex/infer/core/engine.h"

#include <thread>

#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "tests/infer/core/fake_executor.h"
#include "tests/lm/contract.h"

namespace calyrex::infer {
namespace {

constexpr const char* kModel = "tests/golden/models/llama";
constexpr const char* kAdapter = "tests/golden/model/llama.default";

std::unique_ptr<Engine> open_engine(FakeOptions fake = {}, lm::LocalModelOptions options = {}) {
  options.model = kModel;
  return std::make_unique<Engine>(weights::open_model(kModel), options,
                                  [fake] { return std::make_unique<FakeExecutor>(fake); });
}

lm::GenerateRequest ids_request(std::vector<TokenId> ids, int64_t max_new_tokens) {
  lm::GenerateRequest request;
  request.prompt.token_ids = std::move(ids);
  request.max_new_tokens = max_new_tokens;
  return request;
}

/// What the fake must answer, computed from the ids alone.
std::vector<TokenId> expected_answer(std::vector<TokenId> ids, int64_t count, double scale = 0.0,
                                     const FakeOptions& fake = {}) {
  std::vector<TokenId> answer;
  for (int64_t i = 0; i < count; ++i) {
    answer.push_back(fake_next(ids, scale, fake));
    ids.push_back(answer.back());
  }
  return answer;
}

std::vector<TokenId> some_ids(size_t length, TokenId first) {
  std::vector<TokenId> ids(length);
  for (size_t i = 0; i < length; ++i)
    ids[i] = static_cast<TokenId>((static_cast<size_t>(first) + 7 * i) % 90 + 5);
  return ids;
}

TEST(Engine, AnswersHoldWhateverTheBatch) {
  for (const int64_t chunk : {1, 3, 1024}) {
    auto engine = open_engine({}, {.prefill_chunk_tokens = chunk});
    std::vector<lm::GenerateRequest> requests;
    for (int i = 0; i < 30; ++i) requests.push_back(ids_request(some_ids(1 + i % 13, i), 1 + i % 17));
    const auto answers = lm::generate_all(*engine, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(answers[i].token_ids,
                expected_answer(requests[i].prompt.token_ids, requests[i].max_new_tokens));
      EXPECT_EQ(answers[i].reason, lm::FinishReason::kLength);
    }
    EXPECT_EQ(engine->counters().cache_pages_used, 0);
  }
}

TEST(Engine, PreemptedSequencesGoOnAsIfNothingHappened) {
  // 8 pages of 4 tokens; each of six sequences alone grows to 7 pages.
  const FakeOptions fake{.num_pages = 8, .page_size = 4};
  auto engine = open_engine(fake, {.max_batch_sequences = 6, .prefill_chunk_tokens = 5});
  std::vector<lm::GenerateRequest> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(ids_request(some_ids(5, 11 * i), 22));
  const auto answers = lm::generate_all(*engine, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(answers[i].token_ids, expected_answer(requests[i].prompt.token_ids, 22, 0.0, fake)) << i;
  }
}

TEST(Engine, PrefixesAreComputedOnce) {
  FakeExecutor* executor = nullptr;
  const auto open = [&](bool reuse) {
    return std::make_unique<Engine>(
        weights::open_model(kModel), lm::LocalModelOptions{.reuse_prefixes = reuse}, [&] {
          auto opened = std::make_unique<FakeExecutor>(FakeOptions{.num_pages = 400});
          executor = opened.get();
          return opened;
        });
  };
  std::vector<lm::GenerateRequest> requests;
  for (int i = 0; i < 20; ++i) {
    auto ids = some_ids(100, 3);
    ids.push_back(200 + i);
    requests.push_back(ids_request(ids, 3));
  }
  for (const bool reuse : {false, true}) {
    auto engine = open(reuse);
    const auto answers = lm::generate_all(*engine, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(answers[i].token_ids, expected_answer(requests[i].prompt.token_ids, 3));
    }
    EXPECT_EQ(engine->counters().cached_tokens, reuse ? 19 * 100 : 0);
    EXPECT_EQ(engine->counters().prompt_tokens, 20 * 101);
    EXPECT_EQ(executor->computed_tokens, reuse ? 101 + 19 * 1 + 20 * 2 : 20 * 103);
    EXPECT_EQ(engine->counters().cache_pages_used, 0);
  }
}

TEST(Engine, LimitsOfContextAndCache) {
  auto engine = open_engine({.num_pages = 1000});
  const int64_t max_positions = engine->info().max_positions;
  // An answer stops where the context ends.
  const auto ids = some_ids(static_cast<size_t>(max_positions) - 3, 0);
  EXPECT_EQ(lm::generate_all(*engine, {ids_request(ids, 100)}).at(0).token_ids.size(), 3u);
  EXPECT_THROW(engine->submit(ids_request(some_ids(static_cast<size_t>(max_positions), 0), 1), {}), Error);

  auto small = open_engine({.num_pages = 4, .page_size = 4});
  EXPECT_EQ(lm::generate_all(*small, {ids_request(some_ids(10, 0), 100)}).at(0).token_ids.size(), 6u);
  try {
    small->submit(ids_request(some_ids(16, 0), 1), {});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("cache_gib"), std::string::npos) << error.what();
  }
}

TEST(Engine, AFailedStepEndsItsRequestsAndTheEngineLives) {
  auto engine = open_engine({.fail_at_step = 2});
  std::promise<lm::FinishEvent> ended;
  lm::EventHandler handler;
  handler.on_finish = [&](const lm::FinishEvent& event) { ended.set_value(event); };
  engine->submit(ids_request({7, 8, 9}, 10), handler);
  const lm::FinishEvent event = ended.get_future().get();
  ASSERT_NE(event.error, nullptr);
  try {
    std::rethrow_exception(event.error);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  }
  EXPECT_EQ(event.usage.completion_tokens, 2);
  EXPECT_EQ(lm::generate_all(*engine, {ids_request({7, 8, 9}, 10)}).at(0).token_ids,
            expected_answer({7, 8, 9}, 10));
}

TEST(Engine, OpeningErrorsComeOut) {
  EXPECT_THROW(Engine(weights::open_model(kModel), {},
                      []() -> std::unique_ptr<Executor> { fail(ErrorCode::kUnsupported, "no such device"); }),
               Error);
}

TEST(Engine, AHandlerThatThrowsEndsItsOwnRequestOnly) {
  auto engine = open_engine();
  std::promise<lm::FinishEvent> ended;
  lm::EventHandler handler;
  handler.on_token = [](const lm::TokenEvent&) { throw std::runtime_error("handler"); };
  handler.on_finish = [&](const lm::FinishEvent& event) { ended.set_value(event); };
  engine->submit(ids_request({7, 8}, 10), handler);
  EXPECT_NE(ended.get_future().get().error, nullptr);
  EXPECT_EQ(lm::generate_all(*engine, {ids_request({7, 8}, 4)}).at(0).token_ids, expected_answer({7, 8}, 4));
}

TEST(Engine, StopIdsEndAnAnswerWithoutText) {
  auto source = weights::open_model(kModel);
  ASSERT_FALSE(source->tokenizer().stop_ids.empty());
  auto engine = open_engine();
  lm::GenerateRequest request = ids_request({7, 8, 9}, 50);
  const TokenId stop = source->tokenizer().stop_ids.front();
  request.sampling.logit_bias[stop] = 100.0;
  const lm::Completion completion = lm::generate_all(*engine, {request}).at(0);
  EXPECT_EQ(completion.token_ids, std::vector<TokenId>{stop});
  EXPECT_EQ(completion.text, "");
  EXPECT_EQ(completion.reason, lm::FinishReason::kStop);

  request.ignore_eos = true;
  const lm::Completion full = lm::generate_all(*engine, {request}).at(0);
  EXPECT_EQ(full.token_ids, std::vector<TokenId>(50, stop));
  EXPECT_EQ(full.reason, lm::FinishReason::kLength);
}

TEST(Engine, AdaptersAndScalesReachTheExecutor) {
  auto engine = open_engine();
  engine->load_adapter("a", kAdapter);
  std::vector<lm::GenerateRequest> requests;
  for (const double scale : {1.0, 0.5, 0.0}) {
    requests.push_back(ids_request({7, 8, 9}, 6));
    requests.back().adapter = {.name = "a", .scale = scale};
  }
  const auto answers = lm::generate_all(*engine, requests);
  EXPECT_EQ(answers[0].token_ids, expected_answer({7, 8, 9}, 6, 1.0));
  EXPECT_EQ(answers[1].token_ids, expected_answer({7, 8, 9}, 6, 0.5));
  EXPECT_EQ(answers[2].token_ids, expected_answer({7, 8, 9}, 6, 0.0));
}

TEST(Engine, ScoresAreGroupedByAdapterAndComeBackToTheirRows) {
  auto engine = open_engine();
  engine->load_adapter("a", kAdapter);
  std::vector<std::future<lm::ScoreResult>> results;
  for (int i = 0; i < 60; ++i) {
    lm::ScoreRequest request;
    request.prompt.token_ids = some_ids(static_cast<size_t>(2 + i % 40), i);
    request.score_from = 1;
    if (i % 3 == 0) request.adapter = {.name = "a", .scale = 0.5 + i % 2};
    results.push_back(engine->score(request));
  }
  for (int i = 0; i < 60; ++i) {
    const auto ids = some_ids(static_cast<size_t>(2 + i % 40), i);
    const lm::ScoreResult result = results[static_cast<size_t>(i)].get();
    EXPECT_EQ(result.token_ids, ids);
    ASSERT_EQ(result.logprobs.size(), ids.size() - 1);
    EXPECT_EQ(result.logprobs.back(), -static_cast<double>(ids.back()));
  }
}

TEST(ShareComputation, TakesEqualSequencesUpToTheScoredToken) {
  const ScoreItem a{.token_ids = {1, 2, 3, 4}, .system_spans = {{0, 1}}, .adapter = nullptr, .score_from = 3};
  ScoreItem b = a;
  b.token_ids.back() = 9;
  EXPECT_TRUE(share_computation(a, b));
  b.token_ids[1] = 7;
  EXPECT_FALSE(share_computation(a, b)) << "another prompt";
  b = a;
  b.score_from = 2;
  EXPECT_FALSE(share_computation(a, b)) << "two scored tokens";
  b = a;
  b.system_spans.clear();
  EXPECT_FALSE(share_computation(a, b)) << "another span";
  b = a;
  b.token_ids.push_back(5);
  b.score_from = 4;
  EXPECT_FALSE(share_computation(a, b)) << "another length";
}

TEST(Engine, SameSeedSameAnswerWhateverTheNeighbours) {
  const auto sample = [](Engine& engine, int neighbours) {
    std::vector<lm::GenerateRequest> requests(static_cast<size_t>(neighbours) + 1,
                                              ids_request({7, 8, 9}, 12));
    for (auto& request : requests) request.sampling.temperature = 8.0;
    requests.back().sampling.seed = 5;
    return lm::generate_all(engine, requests).back().token_ids;
  };
  auto engine = open_engine();
  const auto alone = sample(*engine, 0);
  EXPECT_EQ(sample(*engine, 9), alone);
  EXPECT_NE(alone, expected_answer({7, 8, 9}, 12));
  // Without a seed the engine draws one: two answers differ, two engines of the same seed agree.
  auto twin = open_engine();
  std::vector<lm::GenerateRequest> unseeded(2, ids_request({7, 8, 9}, 12));
  for (auto& request : unseeded) request.sampling.temperature = 8.0;
  auto third = open_engine();
  const auto first_run = lm::generate_all(*twin, unseeded);
  EXPECT_NE(first_run[0].token_ids, first_run[1].token_ids);
  EXPECT_EQ(lm::generate_all(*third, unseeded)[0].token_ids, first_run[0].token_ids);
}

TEST(Engine, ManyThreadsSubmitCancelScoreAndLoad) {
  auto engine = open_engine({.num_pages = 24, .page_size = 4}, {.max_batch_sequences = 8});
  std::atomic<int> finished = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        lm::EventHandler handler;
        handler.on_finish = [&](const lm::FinishEvent&) { ++finished; };
        const lm::RequestId id =
            engine->submit(ids_request(some_ids(static_cast<size_t>(3 + i % 9), t), 20), handler);
        if (i % 3 == 0) engine->cancel(id);
        if (i % 5 == 0) {
          lm::ScoreRequest score;
          score.prompt.token_ids = {7, 8, 9};
          score.score_from = 1;
          EXPECT_EQ(engine->score(score).get().logprobs.size(), 2u);
        }
        if (i % 10 == 0) {
          engine->load_adapter("t" + std::to_string(t), kAdapter);
          EXPECT_GE(engine->counters().requests_finished, 0);
          engine->unload_adapter("t" + std::to_string(t));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  engine.reset();
  EXPECT_EQ(finished, 160);
}

}  // namespace
}  // namespace calyrex::infer

namespace calyrex::lm {
INSTANTIATE_TEST_SUITE_P(FakeEngine, LanguageModelContract,
                         testing::Values(ContractCase{.name = "engine",
                                                      .open = [] { return infer::open_engine(); },
                                                      .adapter_path = infer::kAdapter}),
                         [](const auto& info) { return info.param.name; });
}  // namespace calyrex::lm
