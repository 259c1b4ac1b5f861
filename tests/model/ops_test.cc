// Fused operations against plain ATen ops, forward and backward, in float32 and bfloat16.
#include "calyrex/model/ops.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/tolerances.h"

namespace calyrex::model {
namespace {

double max_difference(const at::Tensor& left, const at::Tensor& right) {
  return (left.to(at::kDouble) - right.to(at::kDouble)).abs().max().item<double>();
}

/// Output and gradients of `function` for a fixed random weighting of the output.
std::vector<at::Tensor> run(const std::function<at::Tensor()>& function,
                            const std::vector<at::Tensor>& inputs) {
  const at::Tensor out = function();
  at::manual_seed(99);
  const at::Tensor weight = at::randn(out.sizes());
  std::vector<at::Tensor> results = torch::autograd::grad({(out.to(at::kFloat) * weight).sum()}, inputs);
  results.insert(results.begin(), out.detach());
  return results;
}

void expect_near(const std::vector<at::Tensor>& fused, const std::vector<at::Tensor>& plain, double limit) {
  ASSERT_EQ(fused.size(), plain.size());
  for (size_t n = 0; n < fused.size(); ++n) {
    EXPECT_EQ(fused[n].scalar_type(), plain[n].scalar_type()) << n;
    const double scale = std::max(1.0, plain[n].abs().max().item<double>());
    EXPECT_LE(max_difference(fused[n], plain[n]), limit * scale) << "result " << n;
  }
}

class Ops : public testing::TestWithParam<at::ScalarType> {
 protected:
  Ops() { at::manual_seed(7); }
  at::Tensor input(at::IntArrayRef shape) const {
    return at::randn(shape).to(GetParam()).set_requires_grad(true);
  }
  double limit() const { return GetParam() == at::kFloat ? tolerance::kFloat32Op : tolerance::kBFloat16Op; }
};

TEST_P(Ops, RmsNorm) {
  const at::Tensor x = at::randn({7, 48}).set_requires_grad(true);
  const at::Tensor weight = at::randn({48}).set_requires_grad(true);
  expect_near(run([&] { return rms_norm(x, weight, 1e-5, GetParam()); }, {x, weight}),
              run([&] { return rms_norm_plain(x, weight, 1e-5).to(GetParam()); }, {x, weight}), limit());
}

TEST_P(Ops, AddRmsNormIsAddThenNorm) {
  const at::NoGradGuard no_grad;
  at::Tensor x = at::randn({5, 48});
  const at::Tensor sum = x.clone();
  const at::Tensor delta = at::randn({5, 48}).to(GetParam());
  const at::Tensor weight = at::randn({48});
  const at::Tensor fused = add_rms_norm_(x, delta, weight, 1e-5, GetParam());
  EXPECT_TRUE(at::equal(x, add_scaled(sum.clone(), delta, 1.0)));
  EXPECT_TRUE(at::equal(fused, rms_norm(x, weight, 1e-5, GetParam())));
}

TEST_P(Ops, Swiglu) {
  const at::Tensor gate_up = input({6, 40});
  expect_near(run([&] { return swiglu(gate_up); }, {gate_up}),
              run(
                  [&] {
                    const auto halves = gate_up.to(at::kFloat).chunk(2, 1);
                    return (at::silu(halves[0]) * halves[1]).to(GetParam());
                  },
                  {gate_up}),
              limit());
}

TEST_P(Ops, TrainedLinearGivesItsGradientToTheLeaf) {
  const at::Tensor x = input({9, 32});
  const at::Tensor leaf = at::randn({16, 32}).set_requires_grad(true);
  const at::Tensor compute = leaf.detach().to(GetParam());
  expect_near(
      run([&] { return trained_linear(x, leaf, compute); }, {x, leaf}),
      run([&] { return at::linear(x.to(at::kFloat), leaf.to(GetParam()).to(at::kFloat)).to(GetParam()); },
          {x, leaf}),
      limit());
}

TEST_P(Ops, FrozenLinear) {
  for (const auto& [rows, in, out] : {std::tuple{9, 32, 16}, {1, 33, 17}, {130, 5, 3}, {2, 96, 1}}) {
    const at::Tensor x = input({rows, in});
    const at::Tensor weight = at::randn({out, in}).to(GetParam());
    const FrozenMatrix frozen(weight);
    EXPECT_TRUE(at::equal(frozen.plain(), weight));
    expect_near(run([&] { return frozen_linear(x, frozen); }, {x}),
                run([&] { return at::linear(x.to(at::kFloat), weight.to(at::kFloat)).to(GetParam()); }, {x}),
                limit());
  }
}

TEST_P(Ops, AddToRowsAndGatherRows) {
  const at::Tensor x = at::randn({8, 16}).set_requires_grad(true);
  const at::Tensor delta = input({3, 16});
  const at::Tensor rows = at::tensor({6, 0, 3}, at::kLong);
  expect_near(run([&] { return add_to_rows(x, rows, delta, 0.5); }, {x, delta}),
              run([&] { return x.index_add(0, rows, delta.to(at::kFloat) * 0.5); }, {x, delta}), limit());
  expect_near(run([&] { return gather_rows(x, rows); }, {x}),
              run([&] { return x.index_select(0, rows); }, {x}), tolerance::kFloat32Op);
}

TEST_P(Ops, SplitHeads) {
  constexpr int64_t kHeads = 4, kKvHeads = 2, kHeadDim = 8, kRows = 5;
  const RopeTable rope =
      rope_table(at::arange(3, 3 + kRows, at::kLong), at::tensor({1.0f, 0.3f, 0.1f, 0.01f}));
  HeadsSpec plain_spec{.num_heads = kHeads, .num_kv_heads = kKvHeads, .head_dim = kHeadDim};
  HeadsSpec full_spec = plain_spec;
  full_spec.bias = at::randn({(kHeads + 2 * kKvHeads) * kHeadDim});
  full_spec.q_norm = at::rand({kHeadDim}) + 0.5;
  full_spec.k_norm = at::rand({kHeadDim}) + 0.5;
  for (const HeadsSpec& spec : {plain_spec, full_spec}) {
    const at::Tensor packed = input({kRows, (kHeads + 2 * kKvHeads) * kHeadDim});
    const auto expected = [&] {
      at::Tensor all = packed.to(at::kFloat);
      if (spec.bias.defined()) all = all + spec.bias;
      const auto parts = all.view({kRows, -1, kHeadDim}).split_with_sizes({kHeads, kKvHeads, kKvHeads}, 1);
      const auto normed = [&](const at::Tensor& heads, const at::Tensor& weight) {
        return weight.defined() ? rms_norm_plain(heads, weight, spec.norm_eps) : heads;
      };
      return at::cat({rotate_heads(normed(parts[0], spec.q_norm), rope),
                      rotate_heads(normed(parts[1], spec.k_norm), rope), parts[2]},
                     1);
    };
    const auto fused = [&] {
      const Heads heads = split_heads(packed, spec, rope, at::kFloat);
      return at::cat({heads.q, heads.k, heads.v}, 1);
    };
    expect_near(run(fused, {packed}), run(expected, {packed}), limit());
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Ops, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return info.param == at::kFloat ? "float32" : "bfloat16"; });

}  // namespace
}  // namespace calyrex::model
