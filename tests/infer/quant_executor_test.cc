// Steps on packed weights against the same steps in float32 tensors: the tiny golden models with every
// adapter (rounded to 8 bits, so close), and the default backbone, whose own blocks both sides read (so
// closer).
#include "calyrex/infer/quant_executor.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/json.h"
#include "calyrex/infer/model_executor.h"
#include "calyrex/kernels/cpu_target.h"
#include "tests/infer/driver.h"
#include "tests/model/tiny_models.h"

namespace calyrex::infer {
namespace {

using model::TinyModel;

// Weights of 8 bits err by up to 0.4 % of the largest in their block; through tiny layers up to 3 % of the
// largest logit was seen. A wrong row, position or key changes logits by far more.
constexpr double kPackedNetwork = 0.06;
// Required of the quantised path: mean difference of log-probabilities; 0.039 was seen.
constexpr double kMeanDifference = 0.06;

class QuantExecutorTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    tiny_ = TinyModel::open(GetParam());
    packed_ =
        std::make_unique<Driver>(tiny_, std::make_unique<QuantExecutor>(tiny_.source, Driver::options()));
    exact_ =
        std::make_unique<Driver>(tiny_, std::make_unique<ModelExecutor>(tiny_.source, Driver::options()));
  }

  static void expect_near(const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
    ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
    const double scale = expected.abs().max().item<double>();
    EXPECT_LE((actual - expected).abs().max().item<double>() / scale, kPackedNetwork) << what;
  }

  /// Whether a choice does not fall back to tensors.
  bool runs_packed(const Choice& choice) {
    return choice.adapter.empty() ||
           dynamic_cast<const QuantAdapter*>(packed_->adapter(choice.adapter).get()) != nullptr;
  }

  TinyModel tiny_;
  std::unique_ptr<Driver> packed_, exact_;
};

TEST_P(QuantExecutorTest, DecodingIsNearTheFloatPath) {
  for (const Choice& choice : choices(GetParam())) {
    for (const model::SequenceInput& input : tiny_.sequences) {
      const at::Tensor packed = packed_->decode_all(packed_->add(input, choice), 1);
      const at::Tensor exact = exact_->decode_all(exact_->add(input, choice), 1);
      expect_near(packed, exact, choice.adapter + "@" + std::to_string(choice.scale));
    }
  }
}

TEST_P(QuantExecutorTest, BitsDependNeitherOnChunksNorOnNeighbours) {
  for (const Choice& choice : choices(GetParam())) {
    if (!runs_packed(choice)) continue;
    std::vector<at::Tensor> alone;
    for (const model::SequenceInput& input : tiny_.sequences) {
      alone.push_back(packed_->prefill(packed_->add(input, choice), 100));
      for (const int64_t chunk : {1, 3, 7, 16}) {
        EXPECT_TRUE(at::equal(packed_->prefill(packed_->add(input, choice), chunk), alone.back()))
            << choice.adapter << " in chunks of " << chunk;
      }
    }
    std::vector<Sequence*> together;
    for (const model::SequenceInput& input : tiny_.sequences)
      together.push_back(&packed_->add(input, choice));
    Sequence& other = packed_->add(tiny_.sequences.front(), {});
    together.push_back(&other);
    const std::vector<at::Tensor> rows = packed_->step(together, 100);
    for (size_t n = 0; n < alone.size(); ++n) EXPECT_TRUE(at::equal(rows[n], alone[n])) << choice.adapter;
  }
}

TEST_P(QuantExecutorTest, StrengthZeroIsTheBaseBitForBit) {
  const model::SequenceInput& input = tiny_.sequences.back();
  const at::Tensor base = packed_->prefill(packed_->add(input, {}), 100);
  for (const std::string& adapter : model::golden_adapters(GetParam())) {
    EXPECT_TRUE(at::equal(packed_->prefill(packed_->add(input, {adapter, 0.0}), 100), base)) << adapter;
    EXPECT_FALSE(at::equal(packed_->prefill(packed_->add(input, {adapter, 1.0}), 100), base)) << adapter;
  }
}

TEST_P(QuantExecutorTest, PackedAndOtherAdaptersShareAStep) {
  std::vector<Sequence*> sequences;
  std::vector<at::Tensor> alone;
  for (const Choice& choice : choices(GetParam())) {
    alone.push_back(packed_->prefill(packed_->add(tiny_.sequences.back(), choice), 100));
    sequences.push_back(&packed_->add(tiny_.sequences.back(), choice));
  }
  const std::vector<at::Tensor> rows = packed_->step(sequences, 100);
  for (size_t n = 0; n < alone.size(); ++n) EXPECT_TRUE(at::allclose(rows[n], alone[n], 1e-4, 1e-4)) << n;
}

TEST_P(QuantExecutorTest, ScoresAreThoseOfTheFloatPath) {
  const std::string adapter = model::golden_adapters(GetParam()).front();
  const auto score = [&](Driver& driver) {
    ScoreItem item{.token_ids = tiny_.sequences.back().token_ids,
                   .system_spans = tiny_.sequences.back().system_spans,
                   .adapter = driver.adapter(adapter),
                   .score_from = 3};
    const ScoreItem* pointer = &item;
    return driver.executor().score({&pointer, 1}).at(0).logprobs;
  };
  EXPECT_EQ(score(*packed_), score(*exact_));
}

INSTANTIATE_TEST_SUITE_P(Models, QuantExecutorTest, testing::Values("llama", "qwen2", "qwen3", "mistral"),
                         [](const auto& info) { return info.param; });

TEST(QuantBackboneTest, LogProbabilitiesAreNearFloat32Transformers) {
  std::shared_ptr<const weights::ModelSource> source;
  try {
    source = weights::open_model("default");
  } catch (const Error& error) {
    GTEST_SKIP() << "SKIPPED: the default backbone: " << error.what();
  }
  ASSERT_TRUE(QuantNetwork::supports(*source));
  QuantExecutor executor(source, {.cache_gib = 0.2});
  PagePool pool(executor.num_pages());
  const Json expected = read_json_file("tests/golden/score/expected.json");
  // Without vectors a token takes a tenth of a second or more; the short chats must do there.
  const size_t most_tokens = kernels::cpu_target() == "scalar" ? 100 : std::numeric_limits<size_t>::max();
  double total = 0.0;
  int64_t count = 0;
  for (const auto& [id, row] : expected["rows"].items()) {
    const auto ids = row["token_ids"].get<std::vector<TokenId>>();
    if (ids.size() > most_tokens) continue;
    const auto logprobs = row["logprobs"]["base"].get<std::vector<double>>();
    Sequence sequence;
    sequence.id = static_cast<lm::RequestId>(count + 1);
    ASSERT_TRUE(pool.allocate(static_cast<int64_t>(ids.size()) / executor.page_size() + 1, sequence.pages));
    auto next = ids.begin() + row["score_from"].get<int64_t>();
    for (const double logprob : logprobs) {
      sequence.token_ids.assign(ids.begin(), next);
      const StepItem item{&sequence, sequence.computed, sequence.length() - sequence.computed};
      const std::vector<LogitsRow> rows = executor.step({&item, 1});
      sequence.computed = sequence.length();
      const double actual = rows.at(0).logits[static_cast<size_t>(*next++)] - rows.at(0).log_sum_exp;
      total += std::abs(actual - logprob);
      ++count;
    }
    for (const PageId page : sequence.pages) pool.release(page);
  }
  EXPECT_LE(total / static_cast<double>(count), kMeanDifference);
  RecordProperty("mean_difference", std::to_string(total / static_cast<double>(count)));
}

}  // namespace
}  // namespace calyrex::infer
