// Hidden states, loss and gradients of tiny random models against PyTorch (tools/golden).
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/model/tiny_models.h"
#include "tests/tolerances.h"

namespace calyrex::model {
namespace {

void expect_close(const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const double scale = std::max(1e-3, expected.abs().max().item<double>());
  EXPECT_LE((actual - expected).abs().max().item<double>() / scale, tolerance::kFloat32Network) << what;
}

class GoldenModel : public testing::TestWithParam<std::string> {};

TEST_P(GoldenModel, BaseEqualsTransformers) {
  const TinyModel model = TinyModel::open(GetParam());
  const GoldenFile golden = model.golden();
  const at::NoGradGuard no_grad;
  const TinyModel::Result result = model.run(nullptr);
  for (size_t layer = 0; layer < result.hidden.size(); ++layer) {
    expect_close(result.hidden[layer], golden.floats("hidden." + std::to_string(layer)),
                 "layer " + std::to_string(layer));
  }
  const at::Tensor expected_logits = golden.floats("logits_of_last_sequence");
  expect_close(result.logits.slice(0, result.logits.size(0) - expected_logits.size(0)), expected_logits,
               "logits");
  expect_close(result.loss.view({1}), golden.floats("loss"), "loss");
}

TEST_P(GoldenModel, AdaptersEqualTheReference) {
  const TinyModel model = TinyModel::open(GetParam());
  for (const std::string& name : golden_adapters(GetParam())) {
    SCOPED_TRACE(name);
    const GoldenFile golden("tests/golden/model/" + GetParam() + "." + name + "/expected.safetensors");
    const auto adapter = model.adapter(name, AdapterUse::kServe);
    const at::NoGradGuard no_grad;
    for (const std::string scale : {"1.0", "0.5"}) {
      const std::string prefix = "scale_" + scale + ".";
      const TinyModel::Result result = model.run(adapter.get(), std::stod(scale));
      int compared = 0;
      for (size_t layer = 0; layer < result.hidden.size(); ++layer) {
        const std::string key = prefix + "hidden." + std::to_string(layer);
        if (!golden.has(key)) continue;
        expect_close(result.hidden[layer], golden.floats(key), key);
        ++compared;
      }
      EXPECT_GT(compared, 0);
      expect_close(result.loss.view({1}), golden.floats(prefix + "loss"), prefix + "loss");
    }
  }
}

TEST_P(GoldenModel, GradientsEqualTheReference) {
  const TinyModel model = TinyModel::open(GetParam());
  for (const std::string& name : golden_adapters(GetParam())) {
    SCOPED_TRACE(name);
    const GoldenFile golden("tests/golden/model/" + GetParam() + "." + name + "/expected.safetensors");
    for (const std::string scale : {"1.0", "0.5"}) {
      const std::string prefix = "scale_" + scale + ".grad.";
      const auto adapter = model.adapter(name, AdapterUse::kTrain);
      if (!golden.has(prefix + adapter->parameters().front().name)) continue;
      model.run(adapter.get(), std::stod(scale)).loss.backward();
      for (const AdapterParameter& parameter : adapter->parameters()) {
        expect_close(parameter.grad(), golden.floats(prefix + parameter.name), prefix + parameter.name);
      }
    }
  }
}

/// Every second predicting row outside all spans, and its target.
struct ReadRows {
  std::vector<int64_t> rows;
  at::Tensor targets;
};

ReadRows rows_outside_spans(const TinyModel& model) {
  std::vector<int64_t> rows, targets;
  const auto in_span = [&](int64_t row) {
    for (const RaggedBatch::Sequence& sequence : model.batch.sequences) {
      for (const TokenSpan& span : sequence.system_spans) {
        if (row >= sequence.begin + span.begin && row < sequence.begin + span.end) return true;
      }
    }
    return false;
  };
  for (int64_t n = 0; n < model.predicting_rows.size(0); n += 2) {
    const auto row = model.predicting_rows[n].item<int64_t>();
    if (in_span(row)) continue;
    rows.push_back(row);
    targets.push_back(model.targets[n].item<int64_t>());
  }
  return {.rows = std::move(rows), .targets = at::tensor(targets, at::kLong)};
}

TEST_P(GoldenModel, NarrowedLastLayerGivesTheSameLossAndGradients) {
  const TinyModel model = TinyModel::open(GetParam());
  const ReadRows read = rows_outside_spans(model);
  const auto loss_of = [&](const at::Tensor& logits) {
    return -at::log_softmax(logits, 1).gather(1, read.targets.unsqueeze(1)).mean();
  };
  for (const std::string& name : golden_adapters(GetParam())) {
    SCOPED_TRACE(name);
    const auto whole = model.adapter(name, AdapterUse::kTrain);
    const at::Tensor expected =
        loss_of(model.run(whole.get()).logits.index_select(0, at::tensor(read.rows, at::kLong)));
    expected.backward();
    for (const int64_t multiple : {1, 8}) {
      SCOPED_TRACE(multiple);
      const RaggedBatch batch = pack(model.sequences, model.decoder->config().vocab_size, at::kCPU, multiple);
      const auto part = model.adapter(name, AdapterUse::kTrain);
      PlannedForward forward(batch, part.get());
      const at::Tensor places = forward.narrow_to(read.rows);
      const at::Tensor hidden = model.decoder->run_layers(
          model.decoder->embed(batch.token_ids), 0, model.decoder->config().num_layers, forward.context());
      EXPECT_LT(hidden.size(0), batch.num_rows());
      EXPECT_EQ(hidden.size(0) % multiple, 0);
      const at::Tensor loss =
          loss_of(model.decoder->logits(model.decoder->final_norm(gather_rows(hidden, places))));
      loss.backward();

      expect_close(loss.detach().view({1}), expected.detach().view({1}), "loss");
      for (size_t n = 0; n < part->parameters().size(); ++n) {
        const AdapterParameter& parameter = part->parameters()[n];
        expect_close(parameter.grad(), whole->parameters()[n].grad(), parameter.name);
      }
    }
  }
}

TEST_P(GoldenModel, ScaleZeroIsTheBaseBitForBit) {
  const TinyModel model = TinyModel::open(GetParam());
  const at::NoGradGuard no_grad;
  const at::Tensor base = model.run(nullptr).logits;
  for (const std::string& name : golden_adapters(GetParam())) {
    const auto adapter = model.adapter(name, AdapterUse::kServe);
    EXPECT_TRUE(at::equal(model.run(adapter.get(), 0.0).logits, base)) << name;
    EXPECT_FALSE(at::equal(model.run(adapter.get(), 1.0).logits, base)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenModel, testing::Values("llama", "qwen2", "qwen3", "mistral"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace calyrex::model
