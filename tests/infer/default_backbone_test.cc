// The engine on the default backbone: scores against Hugging Face transformers (tests/golden/score), decoding
// against scoring, and the parts of the engine's contract that need a real network.
#include <cmath>
#include <filesystem>
#include <numeric>

#include <gtest/gtest.h>
#include <unistd.h>

#include "calyrex/base/error.h"
#include "calyrex/base/json.h"
#include "calyrex/infer/open.h"
#include "calyrex/weights/model_source.h"
#include "tests/hashed_adapter.h"

namespace calyrex::infer {
namespace {

// Float32 sums in another order through 30 layers: 3e-5 was seen; the requirement is 2e-3.
constexpr double kLogprobTolerance = 5e-4;
// Mean difference of bfloat16 products; PyTorch's autocast is at 0.036.
constexpr double kBFloat16MeanDifference = 0.04;

struct GoldenScores {
  std::map<std::string, text::Messages> chats;
  Json expected;
};

class DefaultBackbone : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    try {
      weights::open_model("default");
    } catch (const Error& error) {
      missing_ = error.what();
      return;
    }
    golden_.expected = read_json_file("tests/golden/score/expected.json");
    for_each_json_line("tests/golden/score/chats.jsonl", [](int64_t, Json row) {
      golden_.chats[row["id"].get<std::string>()] = text::parse_messages(row["messages"], "chats.jsonl");
    });
    folder_ = std::filesystem::temp_directory_path() / fmt::format("calyrex-infer-{}", ::getpid());
    const std::shared_ptr<const weights::ModelSource> source = weights::open_model("default");
    for (const auto& [name, description] : golden_.expected["adapters"].items()) {
      test::write_hashed_adapter(folder_ / name, description, *source,
                                 golden_.expected["amplitude"].get<double>());
    }
    engine_ = open(lm::Precision::kFloat32);
  }

  static void TearDownTestSuite() {
    engine_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  void SetUp() override {
    if (engine_ == nullptr) GTEST_SKIP() << "SKIPPED: the default backbone: " << missing_;
  }

  static std::unique_ptr<lm::LanguageModel> open(lm::Precision dtype, lm::LocalModelOptions options = {}) {
    options.dtype = dtype;
    auto engine = open_language_model(options);
    for (const auto& [name, description] : golden_.expected["adapters"].items()) {
      engine->load_adapter(name, folder_ / name);
    }
    return engine;
  }

  /// "late8th@0.5", "base".
  static lm::AdapterChoice choice_of(const std::string& run) {
    const size_t at = run.find('@');
    if (at == std::string::npos) return {};
    return {.name = run.substr(0, at), .scale = std::stod(run.substr(at + 1))};
  }

  /// Largest and mean difference of all golden log-probabilities of one run.
  static std::pair<double, double> compare(lm::LanguageModel& engine, const std::string& run) {
    std::vector<std::pair<std::string, std::future<lm::ScoreResult>>> results;
    for (const auto& [id, messages] : golden_.chats) {
      lm::ScoreRequest request;
      request.prompt.messages = messages;
      request.adapter = choice_of(run);
      results.emplace_back(id, engine.score(request));
    }
    double largest = 0.0, total = 0.0;
    int64_t count = 0;
    for (auto& [id, future] : results) {
      const lm::ScoreResult result = future.get();
      const Json& row = golden_.expected["rows"][id];
      EXPECT_EQ(result.token_ids, row["token_ids"].get<std::vector<TokenId>>()) << id;
      EXPECT_EQ(result.score_from, row["score_from"].get<int64_t>()) << id;
      Json spans = Json::array();
      for (const TokenSpan& span : result.system_spans) spans.push_back({span.begin, span.end});
      EXPECT_EQ(spans, row["system_spans"]) << id;
      const auto expected = row["logprobs"][run].get<std::vector<double>>();
      EXPECT_EQ(result.logprobs.size(), expected.size()) << id;
      for (size_t i = 0; i < std::min(expected.size(), result.logprobs.size()); ++i) {
        const double difference = std::abs(result.logprobs[i] - expected[i]);
        largest = std::max(largest, difference);
        total += difference;
        ++count;
      }
    }
    return {largest, total / static_cast<double>(count)};
  }

  static lm::GenerateRequest question(const std::string& system, const std::string& text,
                                      const std::string& run, int64_t max_new_tokens) {
    lm::GenerateRequest request;
    if (!system.empty()) request.prompt.messages.push_back({.role = "system", .content = system});
    request.prompt.messages.push_back({.role = "user", .content = text});
    request.adapter = choice_of(run);
    request.max_new_tokens = max_new_tokens;
    return request;
  }

  static std::vector<lm::GenerateRequest> questions() {
    std::vector<lm::GenerateRequest> requests;
    int64_t length = 6;
    for (const std::string run : {"base", "late8th@1", "late8th@0.5", "mixed@1"}) {
      requests.push_back(question("Answer in one word.", "What is the capital of France?", run, length));
      requests.push_back(question("", "Count from one to twenty.", run, 3 * length));
      requests.push_back(
          question("Be brief. Never use commas. Write in lower case and end with the word done.",
                   "Name three colours that a rainbow has, and say why it has them.", run, 2 * length));
      ++length;
    }
    return requests;
  }

  static inline GoldenScores golden_;
  static inline std::filesystem::path folder_;
  static inline std::unique_ptr<lm::LanguageModel> engine_;
  static inline std::string missing_;
};

TEST_F(DefaultBackbone, Float32ScoresEqualTransformers) {
  for (const std::string run : {"base", "late8th@1", "late8th@0.5", "mixed@1"}) {
    EXPECT_LE(compare(*engine_, run).first, kLogprobTolerance) << run;
  }
}

TEST_F(DefaultBackbone, ChoicesScoredTogetherAreAsEachAlone) {
  std::vector<lm::ScoreRequest> requests;
  for (const char* question : {"2 + 2 is", "The sky is", "Ice is"}) {
    for (const char* choice : {" A", " B", " four", " blue", " cold water"}) {
      lm::ScoreRequest request;
      request.prompt.text = question;
      request.completion = choice;
      requests.push_back(request);
    }
  }
  std::vector<std::future<lm::ScoreResult>> together;
  for (const lm::ScoreRequest& request : requests) together.push_back(engine_->score(request));
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::vector<double> batched = together[i].get().logprobs;
    const std::vector<double> alone = engine_->score(requests[i]).get().logprobs;
    ASSERT_EQ(batched.size(), alone.size());
    for (size_t n = 0; n < alone.size(); ++n) EXPECT_NEAR(batched[n], alone[n], kLogprobTolerance) << i;
  }
}

TEST_F(DefaultBackbone, ScaleZeroScoresAreTheBaseBitForBit) {
  lm::ScoreRequest request;
  request.prompt.messages = golden_.chats.at("many_turns");
  const std::vector<double> base = engine_->score(request).get().logprobs;
  for (const std::string name : {"late8th", "mixed"}) {
    request.adapter = {.name = name, .scale = 0.0};
    EXPECT_EQ(engine_->score(request).get().logprobs, base) << name;
  }
}

TEST_F(DefaultBackbone, AutoPrecisionStaysClose) {
  const auto engine = open(lm::Precision::kAuto);
  for (const std::string run : {"base", "late8th@1", "late8th@0.5", "mixed@1"}) {
    const double mean = compare(*engine, run).second;
    RecordProperty("mean_difference_" + run, std::to_string(mean));
    EXPECT_LE(mean, kBFloat16MeanDifference) << run << " in " << engine->info().dtype;
  }
}

/// Every generated token is what a whole forward over prompt and answer calls the likeliest, at the same
/// log-probability.
TEST_F(DefaultBackbone, DecodingInABatchEqualsScoringAlone) {
  const std::vector<lm::GenerateRequest> requests = questions();
  const std::vector<lm::Completion> answers = lm::generate_all(*engine_, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    const lm::Prompt prompt = engine_->tokenize(requests[i].prompt, requests[i].adapter);
    lm::ScoreRequest score;
    score.prompt = prompt;
    score.prompt.token_ids.insert(score.prompt.token_ids.end(), answers[i].token_ids.begin(),
                                  answers[i].token_ids.end());
    score.score_from = static_cast<int64_t>(prompt.token_ids.size());
    score.adapter = requests[i].adapter;
    const lm::ScoreResult result = engine_->score(score).get();
    ASSERT_EQ(result.logprobs.size(), answers[i].logprobs.size());
    ASSERT_FALSE(result.logprobs.empty());
    for (size_t n = 0; n < result.logprobs.size(); ++n) {
      EXPECT_TRUE(result.greedy[n]) << "request " << i << " token " << n;
      EXPECT_NEAR(result.logprobs[n], answers[i].logprobs[n], kLogprobTolerance)
          << "request " << i << " token " << n;
    }
  }
}

TEST_F(DefaultBackbone, SmallChunksAndAFullCacheChangeNothing) {
  const std::vector<lm::Completion> expected = lm::generate_all(*engine_, questions());
  // 46 KB a token in float32: some 130 tokens, so that requests wait, grow into each other and are preempted.
  lm::LocalModelOptions options;
  options.cache_gib = 0.0056;
  options.prefill_chunk_tokens = 7;
  const auto small = open(lm::Precision::kFloat32, options);
  const std::vector<lm::Completion> actual = lm::generate_all(*small, questions());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(actual[i].token_ids, expected[i].token_ids) << i;
  EXPECT_EQ(small->counters().cache_pages_used, 0);
  EXPECT_LT(small->counters().cache_pages_total, 12);
}

TEST_F(DefaultBackbone, ACancelledRequestFreesItsPages) {
  std::promise<void> started;
  std::promise<lm::FinishEvent> ended;
  bool first = true;
  lm::EventHandler handler;
  handler.on_token = [&](const lm::TokenEvent&) {
    if (std::exchange(first, false)) started.set_value();
  };
  handler.on_finish = [&](const lm::FinishEvent& event) { ended.set_value(event); };
  const lm::RequestId id =
      engine_->submit(question("", "Tell me a very long story.", "late8th@1", 2000), handler);
  started.get_future().get();
  EXPECT_GT(engine_->counters().requests_running + engine_->counters().requests_waiting, 0);
  engine_->cancel(id);
  EXPECT_EQ(ended.get_future().get().reason, lm::FinishReason::kCancelled);
  EXPECT_EQ(engine_->counters().cache_pages_used, 0);
}

TEST_F(DefaultBackbone, StopStringsCutInsideTokens) {
  lm::GenerateRequest request = question("", "Count from one to twenty in digits.", "base", 40);
  const std::string whole = lm::generate_all(*engine_, {request}).at(0).text;
  ASSERT_GE(whole.size(), 12u);
  // Every stop of four characters in the first part of the answer, wherever the token boundaries are.
  std::vector<lm::GenerateRequest> requests;
  for (size_t begin = 1; begin < 8; ++begin) {
    request.stop = {whole.substr(begin, 4)};
    requests.push_back(request);
  }
  const auto answers = lm::generate_all(*engine_, requests);
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].text, whole.substr(0, whole.find(requests[i].stop[0])));
    EXPECT_EQ(answers[i].reason, lm::FinishReason::kStop);
  }
}

TEST_F(DefaultBackbone, TextPromptsScoreTheTokensOfTheCompletion) {
  lm::ScoreRequest request;
  request.prompt.text = "The capital of France is ";
  request.completion = "Paris.";
  const lm::ScoreResult result = engine_->score(request).get();
  // " Paris" takes the prompt's last blank in: it holds text of the completion, so it is scored.
  EXPECT_EQ(result.logprobs.size(), 2u);
  EXPECT_EQ(result.token_ids.size() - static_cast<size_t>(result.score_from), 2u);
}

}  // namespace
}  // namespace calyrex::infer
