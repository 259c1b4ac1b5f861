// The contract that every kind of adapter keeps in training: identity at the start, only its own tensors
// move, the first step reaches the output projections alone, accumulation is exact, saving and loading loses
// nothing.
#include "calyrex/train/trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "calyrex/base/sha256.h"
#include "tests/model/tiny_models.h"
#include "tests/weights/test_files.h"

namespace calyrex::train {
namespace {

using model::AdapterParameter;
using model::TinyModel;

struct Kind {
  std::string name;
  std::vector<std::string> settings;  // adapter settings
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

const TinyModel& tiny() {
  static const TinyModel model = TinyModel::open("llama");
  return model;
}

/// The golden batch as training rows; `is_target` gives the labels.
std::vector<TrainingRow> golden_rows() {
  std::vector<TrainingRow> rows;
  const std::vector<int64_t> is_target = tiny().golden().integers("is_target");
  size_t first = 0;
  for (const model::SequenceInput& sequence : tiny().sequences) {
    TrainingRow row{.id = "row",
                    .token_ids = sequence.token_ids,
                    .system_spans = sequence.system_spans,
                    .label_spans = {}};
    for (int64_t token = 1; token < row.num_tokens(); ++token) {
      if (is_target[first + static_cast<size_t>(token)] != 0) row.label_spans.push_back({token, token + 1});
    }
    first += sequence.token_ids.size();
    rows.push_back(std::move(row));
  }
  return rows;
}

RowPointers pointers_to(const std::vector<TrainingRow>& rows) {
  RowPointers pointers;
  for (const TrainingRow& row : rows) pointers.push_back(&row);
  return pointers;
}

bool never_stop() { return false; }

TrainSettings settings_for(int64_t micro_batch_tokens) {
  TrainSettings settings;
  settings.learning_rate = 1e-2;
  settings.micro_batch_tokens = micro_batch_tokens;
  return settings;
}

std::string backbone_bytes() {
  Sha256 digest;
  digest.update(std::span(static_cast<const std::byte*>(tiny().decoder->head_weight().const_data_ptr()),
                          tiny().decoder->head_weight().nbytes()));
  const at::NoGradGuard no_grad;
  for (const at::Tensor& hidden : tiny().run(nullptr).hidden) {
    const at::Tensor whole = hidden.contiguous();
    digest.update(std::span(static_cast<const std::byte*>(whole.const_data_ptr()), whole.nbytes()));
  }
  return digest.hex_digest();
}

class AdapterContract : public testing::TestWithParam<Kind> {
 protected:
  std::shared_ptr<model::Adapter> make(uint64_t seed = 1) const {
    const AdapterSettings settings = parse_adapter_settings(GetParam().settings);
    const model::InitOptions init{.method = settings.init == WeightInit::kCopyBackbone
                                                ? model::InitMethod::kCopyBackbone
                                                : model::InitMethod::kNormal,
                                  .std = 0.2,
                                  .seed = seed};
    return model::create_adapter(make_adapter_config(settings, *tiny().source), *tiny().source, init,
                                 at::kFloat, at::kCPU, model::AdapterUse::kTrain);
  }
};

TEST_P(AdapterContract, ANewAdapterIsTheBaseBitForBit) {
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(tiny().run(make().get()).logits, tiny().run(nullptr).logits));
}

TEST_P(AdapterContract, TheFirstStepReachesTheOutputProjectionsAlone) {
  const auto adapter = make();
  Trainer trainer(tiny().decoder, adapter, settings_for(1000));
  const std::vector<TrainingRow> rows = golden_rows();
  for (const int step : {1, 2}) {
    const auto result = trainer.accumulate(pointers_to(rows), step, never_stop);
    for (const AdapterParameter& parameter : adapter->parameters()) {
      const bool output =
          parameter.name.ends_with("o_proj.weight") || parameter.name.ends_with("down_proj.weight");
      const bool moves = parameter.grad().defined() && parameter.grad().abs().max().item<double>() > 0.0;
      EXPECT_EQ(moves, step == 2 || output) << parameter.name << " in step " << step;
    }
    trainer.update(*result, 1.0);
  }
}

TEST_P(AdapterContract, TrainingLowersTheLossAndLeavesTheBackboneAlone) {
  const std::string before = backbone_bytes();
  Trainer trainer(tiny().decoder, make(), settings_for(1000));
  const std::vector<TrainingRow> rows = golden_rows();
  const double start = trainer.evaluate(pointers_to(rows), never_stop).value();
  EXPECT_NEAR(start, tiny().golden().floats("loss").item<double>(), 1e-4 * start);
  for (int step = 1; step <= 10; ++step) {
    trainer.update(*trainer.accumulate(pointers_to(rows), step, never_stop), 1.0);
  }
  EXPECT_LT(trainer.evaluate(pointers_to(rows), never_stop).value(), 0.98 * start);
  EXPECT_EQ(backbone_bytes(), before);
}

TEST_P(AdapterContract, MicroBatchesAccumulateTheSameGradient) {
  const std::vector<TrainingRow> rows = golden_rows();
  std::vector<at::Tensor> whole;
  double loss = 0.0;
  for (const int64_t micro_batch : {1000, 35, 1}) {
    const auto adapter = make();
    Trainer trainer(tiny().decoder, adapter, settings_for(micro_batch));
    trainer.update(*trainer.accumulate(pointers_to(rows), 1, never_stop), 1.0);
    const auto result = trainer.accumulate(pointers_to(rows), 2, never_stop);
    for (size_t i = 0; i < adapter->parameters().size(); ++i) {
      const at::Tensor grad = adapter->parameters()[i].grad();
      if (micro_batch == 1000) {
        whole.push_back(grad.clone());
        loss = result->loss;
      } else {
        const double scale = whole[i].abs().max().item<double>();
        EXPECT_LE((grad - whole[i]).abs().max().item<double>(), 1e-3 * scale)
            << adapter->parameters()[i].name;
      }
    }
    EXPECT_NEAR(result->loss, loss, 1e-5 * loss);
    EXPECT_EQ(result->tokens, 63);
  }
}

TEST_P(AdapterContract, SavedAndLoadedItTrainsOnAlike) {
  const test::TempFolder folder;
  const auto adapter = make();
  Trainer trainer(tiny().decoder, adapter, settings_for(1000));
  const std::vector<TrainingRow> rows = golden_rows();
  for (const int step : {1, 2}) trainer.update(*trainer.accumulate(pointers_to(rows), step, never_stop), 1.0);
  const auto tensors = model::export_tensors(*adapter, weights::DType::kF32);
  weights::write_adapter(folder / "adapter", adapter->config(), tensors.tensors, {});
  const auto loaded = model::load_adapter(
      weights::open_adapter(folder / "adapter", *tiny().source, weights::BaseMismatch::kReject),
      tiny().decoder->config(), at::kFloat, at::kCPU, model::AdapterUse::kTrain);
  Trainer again(tiny().decoder, loaded, settings_for(1000));
  const auto expected = trainer.accumulate(pointers_to(rows), 3, never_stop);
  const auto result = again.accumulate(pointers_to(rows), 3, never_stop);
  EXPECT_EQ(result->loss, expected->loss);
  EXPECT_EQ(result->norms.total, expected->norms.total);
}

TEST_P(AdapterContract, AStopLeavesNoTrace) {
  const auto adapter = make();
  Trainer trainer(tiny().decoder, adapter, settings_for(1));
  const std::vector<TrainingRow> rows = golden_rows();
  int asked = 0;
  EXPECT_FALSE(trainer.accumulate(pointers_to(rows), 1, [&] { return ++asked > 2; }).has_value());
  for (const AdapterParameter& parameter : adapter->parameters()) EXPECT_FALSE(parameter.grad().defined());
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, AdapterContract,
    testing::Values(Kind{"cal", {"placement=[1, 2]"}}, Kind{"cal_first_layer", {"placement=[0]"}},
                    Kind{"cal_copy", {"placement=[0, 2]", "init=copy_backbone"}},
                    Kind{"cal_rope_anchored",
                         {"placement=[1]", "cal.position=rope", "cal.mlp_scope=anchored",
                          "cal.self_inclusion=exclusive"}},
                    Kind{"cal_attention_only", {"placement=[2]", "cal.intermediate_size=0"}},
                    Kind{"parallel_mlp", {"kind=parallel_mlp", "placement=[1, 2]"}},
                    Kind{"parallel_mlp_parallel",
                         {"kind=parallel_mlp", "placement=[0, 2]", "parallel_mlp.input=parallel"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace calyrex::train
