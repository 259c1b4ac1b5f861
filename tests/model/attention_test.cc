#include "calyrex/model/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/tolerances.h"

namespace calyrex::model {
namespace {

struct Case {
  std::string name;
  AttentionPlan plan;
  int64_t num_heads;
  int64_t num_kv_heads;
};

/// Enough sequences of a span and what follows it that each becomes one thread's work.
AttentionPlan many_sequences() {
  AttentionPlan plan;
  for (int64_t n = 0; n < 12; ++n) {
    const int64_t span = 1 + n % 4, rest = 2 + n;
    plan.segments.push_back(
        {plan.num_queries, plan.num_queries + span, plan.num_keys, plan.num_keys + span, true});
    plan.num_queries += span;
    plan.segments.push_back(
        {plan.num_queries, plan.num_queries + rest, plan.num_keys, plan.num_keys + span, false});
    plan.num_queries += rest;
    plan.num_keys += span;
  }
  return plan;
}

/// The same with the first keys of each sequence taken from the first one.
AttentionPlan sharing_sequences(int64_t count) {
  constexpr int64_t kShared = 3;
  AttentionPlan plan;
  int64_t key = 0;
  for (int64_t n = 0; n < count; ++n) {
    const int64_t shared = n == 0 ? 0 : kShared, own = kShared + 2 + n;
    for (int64_t i = 0; i < shared; ++i) plan.key_rows.push_back(i);
    for (int64_t i = 0; i < own; ++i) plan.key_rows.push_back(plan.num_keys + i);
    plan.segments.push_back(
        {plan.num_queries - shared, plan.num_queries + own, key, key + shared + own, true, shared});
    key += shared + own;
    plan.num_queries += own;
    plan.num_keys += own;
  }
  return plan;
}

std::vector<Case> cases() {
  return {
      {"shared rows", sharing_sequences(3), 4, 2},
      {"shared rows, one thread each", sharing_sequences(12), 4, 2},
      {"unequal lengths", {{{0, 5, 0, 5, true}, {5, 6, 5, 6, true}, {6, 24, 6, 24, true}}, 24, 24}, 4, 2},
      {"equal lengths join",
       {{{0, 7, 0, 7, true}, {7, 14, 7, 14, true}, {14, 21, 14, 21, true}}, 21, 21},
       3,
       3},
      {"many sequences, one thread each", many_sequences(), 4, 2},
      {"shared keys", {{{0, 4, 0, 4, true}, {4, 15, 0, 4, false}, {15, 17, 4, 6, true}}, 17, 6}, 6, 2},
  };
}

struct Inputs {
  at::Tensor q, k, v;
};

Inputs random_inputs(const Case& test, int64_t seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  constexpr int64_t kHeadDim = 16;
  const auto make = [&](int64_t rows, int64_t heads) {
    return at::randn({rows, heads, kHeadDim}).set_requires_grad(true);
  };
  return {.q = make(test.plan.num_queries, test.num_heads),
          .k = make(test.plan.num_keys, test.num_kv_heads),
          .v = make(test.plan.num_keys, test.num_kv_heads)};
}

TEST(Attention, ForwardAndGradientsEqualThePlainOps) {
  for (const Case& test : cases()) {
    SCOPED_TRACE(test.name);
    const Inputs inputs = random_inputs(test, 1);
    PlanAttention attention(test.plan);
    const at::Tensor fused = attention.attend(0, inputs.q, inputs.k, inputs.v);
    const at::Tensor plain = attention_reference(test.plan, inputs.q, inputs.k, inputs.v);
    EXPECT_LE((fused - plain).abs().max().item<double>(), tolerance::kFloat32Op);

    const at::Tensor weight = at::randn(fused.sizes());
    const auto grads = [&](const at::Tensor& out) {
      return torch::autograd::grad({(out * weight).sum()}, {inputs.q, inputs.k, inputs.v});
    };
    const auto fused_grads = grads(fused);
    const auto plain_grads = grads(plain);
    for (size_t n = 0; n < fused_grads.size(); ++n) {
      EXPECT_LE((fused_grads[n] - plain_grads[n]).abs().max().item<double>(), tolerance::kFloat32Op) << n;
    }
  }
}

TEST(Attention, WithoutAutogradTheBitsAreTheSame) {
  for (const Case& test : cases()) {
    const Inputs inputs = random_inputs(test, 2);
    PlanAttention attention(test.plan);
    const at::Tensor with_grad = attention.attend(0, inputs.q, inputs.k, inputs.v);
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::equal(with_grad, attention.attend(0, inputs.q, inputs.k, inputs.v))) << test.name;
  }
}

}  // namespace
}  // namespace calyrex::model
