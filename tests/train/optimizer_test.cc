// AdamW over an adapter: rates by group, decay, tensors without gradient, saved and restored moments, norms.
#include "calyrex/train/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "tests/model/tiny_models.h"
#include "tests/weights/test_files.h"

namespace calyrex::train {
namespace {

using model::AdapterParameter;
using model::TinyModel;

std::shared_ptr<model::Adapter> tiny_adapter() {
  static const TinyModel tiny = TinyModel::open("llama");
  return tiny.adapter("default", model::AdapterUse::kTrain);
}

/// Gives every leaf the same made-up gradient, which depends on `round`.
void set_gradients(const model::Adapter& adapter, int64_t round) {
  for (const AdapterParameter& parameter : adapter.parameters()) {
    const at::Tensor values =
        at::arange(parameter.leaf.numel(), at::kFloat).add_(static_cast<double>(round)).sin_();
    parameter.leaf.mutable_grad() = values.view(parameter.leaf.sizes()).contiguous();
  }
}

/// torch.optim.AdamW as its documentation states it, in float64.
struct Reference {
  at::Tensor param, m, v;
  int64_t step = 0;

  void update(const at::Tensor& grad, double lr, double decay, double beta1, double beta2, double eps) {
    ++step;
    param = param * (1 - lr * decay);
    m = beta1 * m + (1 - beta1) * grad;
    v = beta2 * v + (1 - beta2) * grad * grad;
    const at::Tensor m_hat = m / (1 - std::pow(beta1, step));
    const at::Tensor v_hat = v / (1 - std::pow(beta2, step));
    param = param - lr * m_hat / (v_hat.sqrt() + eps);
  }
};

TEST(Optimizer, EqualsTheFormulaWithRatesAndDecayByGroup) {
  const auto adapter = tiny_adapter();
  TrainSettings settings;
  settings.learning_rate = 1e-2;
  settings.learning_rate_attn = 3e-2;
  settings.weight_decay = 0.1;
  settings.betas = {0.8, 0.95};
  settings.eps = 1e-6;
  Optimizer optimizer(adapter, settings);
  std::vector<Reference> references;
  for (const AdapterParameter& parameter : adapter->parameters()) {
    const at::Tensor value = parameter.value().to(at::kDouble);
    references.push_back({.param = value, .m = at::zeros_like(value), .v = at::zeros_like(value)});
  }
  for (int64_t round = 0; round < 4; ++round) {
    set_gradients(*adapter, round);
    for (size_t i = 0; i < references.size(); ++i) {
      const AdapterParameter& parameter = adapter->parameters()[i];
      const double peak = parameter.part == AdapterParameter::Part::kAttention ? 3e-2 : 1e-2;
      const double decay = parameter.value().dim() == 2 ? 0.1 : 0.0;
      references[i].update(parameter.grad().to(at::kDouble) * 0.5, peak * 0.25, decay, 0.8, 0.95, 1e-6);
    }
    optimizer.step(/*lr_factor=*/0.25, /*grad_scale=*/0.5);
  }
  for (size_t i = 0; i < references.size(); ++i) {
    const AdapterParameter& parameter = adapter->parameters()[i];
    const double error = (parameter.value().to(at::kDouble) - references[i].param).abs().max().item<double>();
    EXPECT_LE(error, 1e-6) << parameter.name;
    EXPECT_TRUE(at::equal(parameter.compute_value(), parameter.value())) << parameter.name;
    EXPECT_FALSE(parameter.grad().defined());
  }
}

TEST(Optimizer, ATensorWithoutGradientIsLeftAlone) {
  const auto adapter = tiny_adapter();
  TrainSettings settings;
  settings.weight_decay = 0.1;
  Optimizer optimizer(adapter, settings);
  set_gradients(*adapter, 1);
  const AdapterParameter& untouched = adapter->parameters()[1];
  untouched.leaf.mutable_grad().reset();
  const at::Tensor before = untouched.value().clone();
  optimizer.step(1.0, 1.0);
  EXPECT_TRUE(at::equal(untouched.value(), before));
  const Json counts = optimizer.step_counts();
  EXPECT_EQ(counts.at(untouched.name), 0);
  EXPECT_EQ(counts.at(adapter->parameters()[0].name), 1);
}

TEST(Optimizer, RestoredMomentsGiveTheSameBits) {
  const test::TempFolder folder;
  const auto first = tiny_adapter();
  Optimizer optimizer(first, TrainSettings{});
  for (int64_t round = 0; round < 3; ++round) {
    set_gradients(*first, round);
    optimizer.step(1.0, 1.0);
  }
  weights::write_safetensors(folder / "moments.safetensors", optimizer.export_moments().tensors);
  const auto second = tiny_adapter();
  for (size_t i = 0; i < first->parameters().size(); ++i) {
    second->parameters()[i].value().copy_(first->parameters()[i].value());
  }
  Optimizer restored(second, TrainSettings{});
  restored.restore(weights::SafetensorsFile::open(folder / "moments.safetensors"), optimizer.step_counts());
  set_gradients(*first, 3);
  set_gradients(*second, 3);
  optimizer.step(1.0, 1.0);
  restored.step(1.0, 1.0);
  for (size_t i = 0; i < first->parameters().size(); ++i) {
    EXPECT_TRUE(at::equal(first->parameters()[i].value(), second->parameters()[i].value()));
  }
}

TEST(Optimizer, MomentsOfAnotherAdapterAreRefused) {
  const test::TempFolder folder;
  const std::vector<float> values(4, 0.0F);
  weights::write_safetensors(folder / "moments.safetensors", {{.name = "m.blocks.1.attn_norm.weight",
                                                               .dtype = weights::DType::kF32,
                                                               .shape = {4},
                                                               .data = std::as_bytes(std::span(values))}});
  Optimizer optimizer(tiny_adapter(), TrainSettings{});
  try {
    optimizer.restore(weights::SafetensorsFile::open(folder / "moments.safetensors"), Json::object());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    EXPECT_NE(std::string(error.what()).find("m.blocks.1.attn_norm.weight"), std::string::npos)
        << error.what();
  }
}

TEST(GradientNorms, TotalAndBlocksAndTheFirstThatIsNotFinite) {
  const auto adapter = tiny_adapter();
  set_gradients(*adapter, 2);
  double total = 0.0;
  std::map<int64_t, double> blocks;
  for (const AdapterParameter& parameter : adapter->parameters()) {
    const double squares = parameter.grad().to(at::kDouble).pow(2).sum().item<double>();
    total += squares;
    blocks[parameter.layer] += squares;
  }
  GradientNorms norms = gradient_norms(*adapter);
  EXPECT_NEAR(norms.total, std::sqrt(total), 1e-9 * norms.total);
  ASSERT_EQ(norms.blocks.size(), 2u);
  for (const auto& [layer, squares] : blocks) EXPECT_NEAR(norms.blocks.at(layer), std::sqrt(squares), 1e-9);
  EXPECT_EQ(norms.non_finite, "");
  const AdapterParameter& bad = adapter->parameters()[4];
  bad.grad().view({-1})[0] = std::numeric_limits<float>::quiet_NaN();
  norms = gradient_norms(*adapter);
  EXPECT_FALSE(std::isfinite(norms.total));
  EXPECT_EQ(norms.non_finite, bad.name);
}

}  // namespace
}  // namespace calyrex::train
