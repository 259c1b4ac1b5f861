#include "calyrex/study/analysis_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "calyrex/study/analysis_switches.h"
#include "tests/study/study_support.h"
#include "tests/tolerances.h"

namespace calyrex::study {
namespace {

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>() / b.abs().max().item<double>();
}

model::GoldenFile golden() { return model::GoldenFile("tests/golden/study/analysis.safetensors"); }

TEST(LastStates, EqualTransformersHiddenStates) {
  const TinyStudy study;
  const at::Tensor expected = golden().floats("states");
  for (const int64_t batch_rows : {1, 2}) {
    const auto states =
        last_states(study.model.base(), make_batches(study.rows, batch_rows, *study.tiny.decoder));
    ASSERT_EQ(static_cast<int64_t>(states.size()), expected.size(0));
    for (size_t layer = 0; layer < states.size(); ++layer) {
      EXPECT_LT(distance(states[layer], expected[static_cast<int64_t>(layer)]), tolerance::kFloat32Network)
          << layer;
    }
  }
}

TEST(LastStates, FirstDifferAfterTheFirstBlock) {
  const TinyStudy study;
  const auto batches = make_batches(study.rows, 2, *study.tiny.decoder);
  const auto base = last_states(study.model.base(), batches), adapted = last_states(study.model, batches);
  EXPECT_TRUE(at::equal(base[1], adapted[1])) << "after layer 0";
  EXPECT_FALSE(at::equal(base[2], adapted[2])) << "after layer 1 and its block";
  const auto without = make_batches_without_system(study.rows, 2, *study.tiny.decoder);
  EXPECT_EQ(last_states(study.model, without)[0].size(0), static_cast<int64_t>(study.rows.size()));
}

TEST(SpanAttention, EqualsTransformersEagerAttention) {
  const TinyStudy study;
  const SpanAttention measured =
      measure_span_attention(study.model.base(), make_batches(study.rows, 2, *study.tiny.decoder));
  EXPECT_LT(distance(measured.last_prompt_token, golden().floats("last")), tolerance::kFloat32Network);
  EXPECT_LT(distance(measured.answer, golden().floats("answer")), tolerance::kFloat32Network);
}

TEST(Blocks, WeightsAndContributionsEqualTheReference) {
  const TinyStudy study;
  const BlockMeasures measured =
      measure_blocks(study.model, make_batches(study.rows, 2, *study.tiny.decoder), 1);
  ASSERT_EQ(measured.activity.size(), 2u);
  for (const auto& [layer, activity] : measured.activity) {
    const std::string name = "block." + std::to_string(layer);
    const at::Tensor ratios = golden().floats(name + ".ratios");
    EXPECT_NEAR(activity.attention_ratio, ratios[0].item<double>(), 1e-4);
    EXPECT_NEAR(activity.mlp_ratio, ratios[1].item<double>(), 1e-4);
    ASSERT_EQ(measured.weights.at(layer).size(), 1u);
    const SpanWeights& weights = measured.weights.at(layer)[0];
    EXPECT_LT(distance(weights.answer, golden().floats(name + ".weights")), tolerance::kFloat32Network);
    EXPECT_LT(distance(weights.last_prompt_token.sum(1), at::ones({4})), 1e-5);
    for (const double focus : activity.focus) {
      EXPECT_GT(focus, 0.0);
      EXPECT_LT(focus, 1.0);
    }
  }
}

TEST(Blocks, HalfTheScaleAddsLess) {
  const TinyStudy full, half("default", 0.5);
  const auto batches = make_batches(full.rows, 2, *full.tiny.decoder);
  const auto at_full = measure_blocks(full.model, batches, 0),
             at_half = measure_blocks(half.model, batches, 0);
  EXPECT_NEAR(at_half.activity.at(1).attention_ratio, 0.5 * at_full.activity.at(1).attention_ratio, 1e-5);
}

TEST(Switches, AllOffIsTheBaseAndTheRestIsInBetween) {
  for (const char* name : {"default", "rope", "parallel_mlp"}) {
    const TinyStudy study(name);
    const auto batches = make_batches(study.rows, 2, *study.tiny.decoder);
    const LossMeter meter(study.model, batches);
    const auto settings = switch_settings(study.model);
    const bool cal = study.model.adapter->config().kind == weights::AdapterKind::kCal;
    EXPECT_EQ(settings.size(), 2 + (cal ? 3u : 1u) * study.model.blocks().size()) << name;
    std::vector<std::vector<double>> losses;
    for (const SwitchSetting& setting : settings) {
      BlockSwitch observer(setting.off);
      losses.push_back(meter.measure(&observer).sums);
      EXPECT_EQ(losses.back().size(), study.rows.size());
    }
    EXPECT_EQ(losses[0], meter.measure(nullptr).sums);
    // The base, by the whole network at scale 0.
    StudiedModel silent = study.model;
    silent.scale = 0.0;
    const auto states = last_states(silent, batches), base = last_states(study.model.base(), batches);
    EXPECT_TRUE(at::equal(states.back(), base.back()));
    for (size_t i = 2; i < losses.size(); ++i)
      EXPECT_NE(losses[i], losses[0]) << name << ": " << settings[i].name;
    EXPECT_NE(losses[1], losses[0]);
  }
}

TEST(Switches, LossesEqualThoseOfTheWholeNetwork) {
  const TinyStudy study;
  const auto batches = make_batches(study.rows, 2, *study.tiny.decoder);
  const LossMeter meter(study.model, batches);
  const auto whole_loss = [&](const model::Adapter* adapter) {
    const model::TinyModel::Result result = study.tiny.run(batches[0].batch, adapter, 1.0);
    const at::Tensor shares =
        at::log_softmax(result.logits.index_select(0, index_tensor(batches[0].read, at::kCPU)), 1);
    return -shares.gather(1, index_tensor(batches[0].targets, at::kCPU).unsqueeze(1)).sum().item<double>();
  };
  const auto total = [](const RowLosses& losses) { return losses.sums[0] + losses.sums[1]; };
  EXPECT_NEAR(total(meter.measure(nullptr)), whole_loss(study.model.adapter.get()), 1e-3);
  BlockSwitch off(switch_settings(study.model)[1].off);
  EXPECT_NEAR(total(meter.measure(&off)), whole_loss(nullptr), 1e-3);
}

}  // namespace
}  // namespace calyrex::study
