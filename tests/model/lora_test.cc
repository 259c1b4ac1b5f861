// The low-rank product against its formula in plain ops: values, gradients, some rows, several ranks.
#include "calyrex/model/lora.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "tests/tolerances.h"

namespace calyrex::model {
namespace {

constexpr int64_t kIn = 24, kOut = 40;

/// Two parts of ranks 3 and 5; columns 8 to 20 of the product get no update.
LowRankUpdate make_update() {
  const auto trained = [](at::IntArrayRef shape) {
    const at::Tensor leaf = at::randn(shape).set_requires_grad(true);
    return TrainedTensor{.leaf = leaf, .compute = leaf.detach()};
  };
  LowRankUpdate update;
  update.a = trained({8, kIn});
  update.parts.push_back({.out_begin = 0, .rank_begin = 0, .scale = 0.5, .b = trained({8, 3})});
  update.parts.push_back({.out_begin = 20, .rank_begin = 3, .scale = 2.0, .b = trained({20, 5})});
  return update;
}

at::Tensor expected_product(const at::Tensor& x, const at::Tensor& weight, const LowRankUpdate& update,
                            double strength) {
  const at::Tensor low = at::linear(x, update.a.leaf);
  const auto delta = [&](const LowRankUpdate::Part& part) {
    return at::linear(low.narrow(1, part.rank_begin, part.rank()), part.b.leaf) * (strength * part.scale);
  };
  const at::Tensor gap = at::zeros({x.size(0), 12});
  return at::linear(x, weight) + at::cat({delta(update.parts[0]), gap, delta(update.parts[1])}, 1);
}

void expect_close(const at::Tensor& actual, const at::Tensor& expected, const char* what) {
  ASSERT_TRUE(actual.defined()) << what;
  const double largest = expected.abs().max().item<double>();
  EXPECT_LE((actual - expected).abs().max().item<double>(), tolerance::kFloat32Op * largest) << what;
}

TEST(LowRankLinear, ValuesAndGradientsEqualTheFormula) {
  const at::Tensor weight = at::randn({kOut, kIn});
  const FrozenMatrix frozen(weight);
  const LowRankUpdate update = make_update();
  const at::Tensor x = at::randn({11, kIn}).set_requires_grad(true);
  const at::Tensor direction = at::randn({11, kOut});
  std::vector<at::Tensor> leaves = {x, update.a.leaf, update.parts[0].b.leaf, update.parts[1].b.leaf};
  const at::Tensor expected = expected_product(x, weight, update, 0.7);
  expected.backward(direction);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& leaf : leaves) {
    gradients.push_back(leaf.grad().clone());
    leaf.mutable_grad().reset();
  }
  const at::Tensor actual = low_rank_linear(x, frozen, update, 0.7);
  actual.backward(direction);
  expect_close(actual.detach(), expected.detach(), "product");
  const char* names[] = {"x", "A", "first B", "second B"};
  for (size_t n = 0; n < leaves.size(); ++n) expect_close(leaves[n].grad(), gradients[n], names[n]);
}

TEST(LowRankLinear, AnInputWithoutGradientGetsNone) {
  const FrozenMatrix frozen(at::randn({kOut, kIn}));
  const LowRankUpdate update = make_update();
  const at::Tensor x = at::randn({4, kIn});
  low_rank_linear(x, frozen, update, 1.0).sum().backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(update.a.leaf.grad().defined());
}

TEST(AddLowRank, ChangesItsRowsAlone) {
  const at::NoGradGuard no_grad;
  const at::Tensor weight = at::randn({kOut, kIn});
  const LowRankUpdate update = make_update();
  const at::Tensor x = at::randn({9, kIn});
  const at::Tensor base = at::linear(x, weight);
  const at::Tensor whole = expected_product(x, weight, update, 1.5);
  at::Tensor all = base.clone();
  add_low_rank_(all, x, at::Tensor(), update, 1.5);
  expect_close(all, whole, "all rows");
  const std::vector<int64_t> chosen = {1, 4, 8};
  const at::Tensor rows = at::tensor(chosen, at::kLong);
  at::Tensor some = base.clone();
  add_low_rank_(some, x, rows, update, 1.5);
  expect_close(some.index_select(0, rows), whole.index_select(0, rows), "chosen rows");
  const at::Tensor others = at::tensor(std::vector<int64_t>{0, 2, 3, 5, 6, 7}, at::kLong);
  EXPECT_TRUE(at::equal(some.index_select(0, others), base.index_select(0, others)));
}

TEST(LowRankLinear, BFloat16KeepsItsPrecision) {
  const at::Tensor weight = at::randn({kOut, kIn});
  LowRankUpdate update = make_update();
  const at::Tensor x = at::randn({13, kIn}).to(at::kBFloat16);
  const at::Tensor expected = [&] {
    const at::NoGradGuard no_grad;
    return expected_product(x.to(at::kFloat), weight, update, 1.0);
  }();
  update.a.compute = update.a.leaf.detach().to(at::kBFloat16);
  for (LowRankUpdate::Part& part : update.parts) part.b.compute = part.b.leaf.detach().to(at::kBFloat16);
  const FrozenMatrix frozen(weight.to(at::kBFloat16));
  const at::Tensor actual = low_rank_linear(x, frozen, update, 1.0);
  EXPECT_EQ(actual.scalar_type(), at::kBFloat16);
  const double largest = expected.abs().max().item<double>();
  EXPECT_LE((actual.detach().to(at::kFloat) - expected).abs().max().item<double>(),
            tolerance::kBFloat16Op * largest);
  actual.sum().backward();
  EXPECT_EQ(update.a.leaf.grad().scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace calyrex::model
