// Sizes that match another adapter's number of parameters.
#include "calyrex/train/match_params.h"

#include <cmath>

#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/weights/peft_folder.h"
#include "tests/weights/test_files.h"

namespace calyrex::train {
namespace {

/// Shapes of SmolLM2-135M (PAPER.md, "Sizes for checking").
weights::ModelConfig smollm() {
  weights::ModelConfig model;
  model.hidden_size = 576;
  model.intermediate_size = 1536;
  model.num_layers = 30;
  model.num_heads = 9;
  model.num_kv_heads = 3;
  model.head_dim = 64;
  model.vocab_size = 49152;
  return model;
}

weights::AdapterConfig config_of(weights::AdapterKind kind,
                                 std::vector<int64_t> placement = {25, 26, 27, 28, 29}) {
  weights::AdapterConfig config;
  config.kind = kind;
  config.placement = std::move(placement);
  config.base.hidden_size = 576;
  config.base.num_hidden_layers = 30;
  config.lora.target_modules = weights::all_linear_targets();
  return weights::resolve_adapter_config(std::move(config), smollm());
}

const int64_t kLate8th = weights::count_parameters(config_of(weights::AdapterKind::kCal));

TEST(MatchParams, ThePapersRank) {
  EXPECT_EQ(kLate8th, 17700480);
  const MatchedSize matched =
      match_parameters(config_of(weights::AdapterKind::kLora), kLate8th, smollm(), /*scale_follows=*/true);
  EXPECT_EQ(matched.config.lora.rank, 58);
  EXPECT_EQ(matched.config.lora.alpha, 58.0);
  EXPECT_TRUE(matched.config.lora.rank_pattern.empty());
  EXPECT_EQ(matched.parameters, 58 * 305280);
  EXPECT_EQ(matched.parameters, weights::count_parameters(matched.config));
}

TEST(MatchParams, TwoRanksWhereOneMisses) {
  for (const int64_t target : {305281, 400000, 915840 + 152640, 2000000, 2289000}) {
    const MatchedSize matched =
        match_parameters(config_of(weights::AdapterKind::kLora), target, smollm(), /*scale_follows=*/true);
    EXPECT_LE(std::abs(matched.deviation(target)), 0.005) << target;
    EXPECT_EQ(matched.parameters, weights::count_parameters(matched.config)) << target;
    for (const weights::LoraModule& module : matched.config.lora_modules) {
      EXPECT_DOUBLE_EQ(module.scale, 1.0) << module.name;
      EXPECT_TRUE(module.rank == matched.config.lora.rank || module.rank == matched.config.lora.rank + 1);
    }
    // PEFT reads the same modules and ranks.
    const Json json = weights::peft_config_to_json(matched.config.lora, "base");
    EXPECT_EQ(weights::parse_peft_config(json, "x"), matched.config.lora);
  }
}

TEST(MatchParams, WidthsComeNearest) {
  const MatchedSize mlp =
      match_parameters(config_of(weights::AdapterKind::kParallelMlp), kLate8th, smollm(), true);
  EXPECT_EQ(mlp.config.parallel_mlp.intermediate_size, 2048);
  EXPECT_LE(std::abs(mlp.parameters - kLate8th), 5 * 3 * 576 / 2);
  const MatchedSize all =
      match_parameters(config_of(weights::AdapterKind::kCal, {0, 5, 10, 15, 20, 25, 26, 27, 28, 29}),
                       kLate8th, smollm(), true);
  EXPECT_LE(std::abs(all.parameters - kLate8th), 10 * 3 * 576 / 2);
}

TEST(MatchParams, AttentionAloneMayExceedTheBudget) {
  const MatchedSize matched =
      match_parameters(config_of(weights::AdapterKind::kCal), 1000000, smollm(), true);
  EXPECT_EQ(matched.config.cal.intermediate_size, 0);
  EXPECT_GT(matched.deviation(1000000), 0.005);
  EXPECT_EQ(matched.size, "width 0 (attention alone)");
}

TEST(MatchParams, MistakesNameTheKey) {
  const auto reject = [](const char* json, const char* message) {
    test::expect_error(ErrorCode::kInvalidArgument, message, [&] { parse_match_params(Json::parse(json)); });
  };
  reject(R"("cal")", "adapter.match_params: expected the adapter to match");
  reject(R"({"placement": "late8th"})", "adapter.match_params: expected the adapter to match");
  reject(R"({"kind": "call"})", "adapter.match_params");
  reject(R"({"kind": "cal", "placment": "last"})", "did you mean 'placement'?");
  reject(R"({"kind": "full"})", "cal, lora or parallel_mlp");
  EXPECT_EQ(parse_match_params(Json::parse(R"({"kind": "cal", "placement": [3]})")).kind, TrainedKind::kCal);
}

}  // namespace
}  // namespace calyrex::train
