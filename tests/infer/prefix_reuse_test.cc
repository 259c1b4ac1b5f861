// Requests that begin behind what earlier ones computed against requests that compute everything: over packed
// weights the same to the bit, over tensors up to rounding.
#include <gtest/gtest.h>

#include "calyrex/infer/core/engine.h"
#include "calyrex/infer/model_executor.h"
#include "calyrex/infer/quant_executor.h"
#include "tests/infer/driver.h"
#include "tests/model/tiny_models.h"
#include "tests/tolerances.h"

namespace calyrex::infer {
namespace {

constexpr int64_t kPrefix = 52;  // tokens that all prompts share, not a multiple of the page
constexpr int64_t kNewTokens = 5;

struct Case {
  std::string model;
  bool packed = false;
};

class PrefixReuseTest : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Engine> open(bool reuse, double cache_gib = 0.01) const {
    lm::LocalModelOptions options = Driver::options();
    options.reuse_prefixes = reuse;
    options.cache_gib = cache_gib;
    const auto source = model::TinyModel::open(GetParam().model).source;
    auto engine = std::make_unique<Engine>(source, options, [&]() -> std::unique_ptr<Executor> {
      if (GetParam().packed) return std::make_unique<QuantExecutor>(source, options);
      return std::make_unique<ModelExecutor>(source, options);
    });
    for (const std::string& name : model::golden_adapters(GetParam().model)) {
      engine->load_adapter(name, "tests/golden/model/" + GetParam().model + "." + name);
    }
    return engine;
  }

  static lm::GenerateRequest request(const Choice& choice, TokenSpans spans, int tail) {
    lm::GenerateRequest request;
    for (int64_t n = 0; n < kPrefix; ++n)
      request.prompt.token_ids.push_back(static_cast<TokenId>(7 + n * 5 % 90));
    for (int n = 0; n < 3 + tail; ++n)
      request.prompt.token_ids.push_back(static_cast<TokenId>(20 + 11 * tail + n));
    request.prompt.system_spans = std::move(spans);
    request.adapter = {.name = choice.adapter, .scale = choice.scale};
    request.max_new_tokens = kNewTokens;
    return request;
  }

  /// Every choice and several spans, each with two tails.
  std::vector<lm::GenerateRequest> requests() const {
    std::vector<lm::GenerateRequest> all;
    for (const TokenSpans& spans : std::vector<TokenSpans>{{{3, 30}}, {{3, 31}}, {{3, 9}, {20, 24}}}) {
      for (const Choice& choice : choices(GetParam().model)) {
        for (int tail = 0; tail < 2; ++tail) all.push_back(request(choice, spans, tail));
      }
    }
    return all;
  }

  /// Whether a request does not fall back to tensors.
  static bool runs_packed(const lm::GenerateRequest& request) {
    if (!GetParam().packed || request.adapter.name.empty()) return GetParam().packed;
    const auto source = model::TinyModel::open(GetParam().model).source;
    const std::string path = "tests/golden/model/" + GetParam().model + "." + request.adapter.name;
    return can_pack(weights::open_adapter(path, *source, weights::BaseMismatch::kReject).config,
                    source->config());
  }

  static void expect_same(const lm::Completion& actual, const lm::Completion& expected,
                          const lm::GenerateRequest& request) {
    const std::string what = request.adapter.name + "@" + std::to_string(request.adapter.scale);
    const bool packed = runs_packed(request);
    EXPECT_EQ(actual.token_ids, expected.token_ids) << what;
    ASSERT_EQ(actual.logprobs.size(), expected.logprobs.size()) << what;
    for (size_t n = 0; n < actual.logprobs.size(); ++n) {
      if (packed) {
        EXPECT_EQ(actual.logprobs[n], expected.logprobs[n]) << what;
      } else {
        EXPECT_NEAR(actual.logprobs[n], expected.logprobs[n], 1e-4) << what;
      }
    }
  }
};

TEST_P(PrefixReuseTest, AHitIsAMiss) {
  const std::vector<lm::GenerateRequest> all = requests();
  const auto without = open(false);
  const std::vector<lm::Completion> expected = lm::generate_all(*without, all);
  EXPECT_EQ(without->counters().cached_tokens, 0);
  const auto with = open(true);
  for (size_t n = 0; n < all.size(); ++n) {
    const lm::Completion actual = lm::generate_all(*with, {all[n]}).at(0);
    expect_same(actual, expected[n], all[n]);
    // Whoever comes second with the same prompt begins behind its full pages.
    EXPECT_GE(actual.usage.cached_tokens, n % 2 == 0 ? 0 : kPrefix / 16 * 16) << all[n].adapter.name;
  }
  EXPECT_EQ(with->counters().cache_pages_used, 0);
}

TEST_P(PrefixReuseTest, TogetherInASmallCacheTheAnswersStay) {
  const std::vector<lm::GenerateRequest> all = requests();
  const std::vector<lm::Completion> expected = lm::generate_all(*open(false), all);
  const auto small = open(true, 0.0003);
  const std::vector<lm::Completion> actual = lm::generate_all(*small, all);
  for (size_t n = 0; n < all.size(); ++n) expect_same(actual[n], expected[n], all[n]);
  EXPECT_EQ(small->counters().cache_pages_used, 0);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* name : {"llama", "qwen2", "qwen3"}) {
    all.push_back({name, true});
    all.push_back({name, false});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, PrefixReuseTest, testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.model + (info.param.packed ? "_packed" : "_tensors");
});

}  // namespace
}  // namespace calyrex::infer
