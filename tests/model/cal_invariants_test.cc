// What holds for every CAL adapter, whatever its weights.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "calyrex/base/error.h"
#include "tests/model/tiny_models.h"
#include "tests/tolerances.h"

namespace calyrex::model {
namespace {

class CalInvariants : public testing::Test {
 protected:
  at::Tensor logits(const std::vector<SequenceInput>& sequences, const Adapter* adapter) const {
    const at::NoGradGuard no_grad;
    return model_.run(pack(sequences, model_.decoder->config().vocab_size, at::kCPU), adapter, 1.0).logits;
  }

  double difference(const at::Tensor& left, const at::Tensor& right) const {
    return (left - right).abs().max().item<double>() / right.abs().max().item<double>();
  }

  weights::AdapterConfig new_config() const {
    weights::AdapterConfig config = model_.adapter("default", AdapterUse::kServe)->config();
    return config;
  }

  TinyModel model_ = TinyModel::open("llama");
  std::shared_ptr<Adapter> adapter_ = model_.adapter("default", AdapterUse::kServe);
  std::shared_ptr<Adapter> anchored_ = model_.adapter("rope", AdapterUse::kServe);
};

TEST_F(CalInvariants, NoSpanAndAnchoredIsTheBaseBitForBit) {
  std::vector<SequenceInput> sequences = model_.sequences;
  for (SequenceInput& sequence : sequences) sequence.system_spans.clear();
  EXPECT_TRUE(at::equal(logits(sequences, anchored_.get()), logits(sequences, nullptr)));
}

TEST_F(CalInvariants, TokensBeforeTheSpanSeeNothing) {
  SequenceInput sequence = model_.sequences.back();
  sequence.system_spans = {{10, 14}};
  const at::Tensor base = logits({sequence}, nullptr);
  const at::Tensor anchored = logits({sequence}, anchored_.get());
  EXPECT_TRUE(
      at::equal(anchored.slice(0, 0, 11), base.slice(0, 0, 11)));  // exclusive: row 10 sees nothing either
  EXPECT_FALSE(at::equal(anchored.slice(0, 11), base.slice(0, 11)));
}

TEST_F(CalInvariants, ALaterTokenNeverChangesAnEarlierOutput) {
  SequenceInput sequence = model_.sequences.back();
  sequence.system_spans = {{2, 9}};
  const at::Tensor before = logits({sequence}, adapter_.get());
  for (const size_t changed : {size_t{6}, size_t{20}}) {
    SequenceInput other = sequence;
    other.token_ids[changed] = other.token_ids[changed] == 5 ? 6 : 5;
    const at::Tensor after = logits({other}, adapter_.get());
    const auto row = static_cast<int64_t>(changed);
    EXPECT_LE(difference(after.slice(0, 0, row), before.slice(0, 0, row)), tolerance::kFloat32Network);
    EXPECT_GT(difference(after.slice(0, row), before.slice(0, row)), tolerance::kFloat32Network);
  }
}

TEST_F(CalInvariants, ASpanAtTheVeryEnd) {
  SequenceInput sequence = model_.sequences.front();
  const auto length = static_cast<int64_t>(sequence.token_ids.size());
  sequence.system_spans = {{length - 1, length}};
  EXPECT_TRUE(logits({sequence}, adapter_.get()).isfinite().all().item<bool>());
  EXPECT_TRUE(logits({sequence}, anchored_.get()).isfinite().all().item<bool>());
}

TEST_F(CalInvariants, OrderAndNeighboursDoNotMatter) {
  const std::vector<SequenceInput>& in_order = model_.sequences;
  const at::Tensor together = logits(in_order, adapter_.get());
  int64_t row = 0;
  for (const SequenceInput& sequence : in_order) {
    const auto length = static_cast<int64_t>(sequence.token_ids.size());
    EXPECT_LE(difference(logits({sequence}, adapter_.get()), together.slice(0, row, row + length)),
              tolerance::kFloat32Network);
    row += length;
  }
  const at::Tensor reversed = logits({in_order[2], in_order[1], in_order[0]}, adapter_.get());
  const auto last = static_cast<int64_t>(in_order[2].token_ids.size());
  EXPECT_LE(difference(reversed.slice(0, 0, last), together.slice(0, row - last)),
            tolerance::kFloat32Network);
}

/// Logits of every token of every sequence, and the gradients of a loss over all of them.
struct Outcome {
  at::Tensor logits;
  std::vector<at::Tensor> grads;
};

Outcome outcome(const TinyModel& model, const std::vector<SequenceInput>& sequences, const Adapter& adapter,
                int64_t row_multiple = 1) {
  const RaggedBatch batch = pack(sequences, model.decoder->config().vocab_size, at::kCPU, row_multiple);
  EXPECT_EQ(batch.num_rows() % row_multiple, 0);
  std::vector<int64_t> rows;
  for (size_t n = 0; n < sequences.size(); ++n) {
    const RaggedBatch::Sequence& sequence = batch.sequences[n];
    for (int64_t token = 0; token < sequence.length; ++token) rows.push_back(sequence.row(token));
  }
  PlannedForward planned(batch, &adapter);
  const at::Tensor hidden = model.decoder->run_layers(model.decoder->embed(batch.token_ids), 0,
                                                      model.decoder->config().num_layers, planned.context());
  const at::Tensor normed = model.decoder->final_norm(hidden).index_select(0, at::tensor(rows, at::kLong));
  const at::Tensor logits = at::mm(normed, model.decoder->head().plain().t());
  std::vector<at::Tensor> leaves;
  for (const AdapterParameter& parameter : adapter.parameters()) {
    if (leaves.empty() || !leaves.back().is_same(parameter.leaf)) leaves.push_back(parameter.leaf);
  }
  return {logits.detach(), torch::autograd::grad({logits.square().sum()}, leaves)};
}

TEST_F(CalInvariants, SharedRowsGiveTheSameResultsAndGradients) {
  std::vector<SequenceInput> sequences;
  for (const size_t changed : {size_t{25}, size_t{4}, size_t{12}, size_t{18}, size_t{4}}) {
    SequenceInput sequence = model_.sequences.back();
    sequence.token_ids.resize(26);
    sequence.system_spans = {{2, 9}, {14, 16}};
    sequence.token_ids[changed] += static_cast<TokenId>(1 + sequences.size() % 3);
    sequences.push_back(std::move(sequence));
  }
  std::vector<SequenceInput> sharing = sequences;
  for (SequenceInput& sequence : sharing) sequence.share_limit = 22;
  ASSERT_TRUE(pack(sharing, model_.decoder->config().vocab_size, at::kCPU).shares_rows());
  for (const char* name : {"default", "rope"}) {  // "rope" is exclusive and anchored too
    const auto adapter = model_.adapter(name, AdapterUse::kTrain);
    const Outcome apart = outcome(model_, sequences, *adapter);
    for (const int64_t row_multiple : {1, 64}) {
      SCOPED_TRACE(fmt::format("{}, rows in {}", name, row_multiple));
      const Outcome shared = outcome(model_, sharing, *adapter, row_multiple);
      EXPECT_LE(difference(shared.logits, apart.logits), tolerance::kFloat32Network);
      ASSERT_EQ(shared.grads.size(), apart.grads.size());
      for (size_t n = 0; n < apart.grads.size(); ++n) {
        EXPECT_LE(difference(shared.grads[n], apart.grads[n]), tolerance::kFloat32Network) << n;
      }
    }
  }
}

TEST_F(CalInvariants, ANewAdapterIsTheBaseBitForBit) {
  for (const InitMethod method : {InitMethod::kNormal, InitMethod::kCopyBackbone}) {
    const auto fresh = create_adapter(new_config(), *model_.source, {.method = method}, at::kFloat, at::kCPU,
                                      AdapterUse::kTrain);
    EXPECT_TRUE(at::equal(logits(model_.sequences, fresh.get()), logits(model_.sequences, nullptr)));
  }
}

TEST_F(CalInvariants, OnTheFirstStepOnlyOutputProjectionsHaveGradients) {
  const auto fresh =
      create_adapter(new_config(), *model_.source, {}, at::kFloat, at::kCPU, AdapterUse::kTrain);
  model_.run(fresh.get()).loss.backward();
  for (const AdapterParameter& parameter : fresh->parameters()) {
    const bool output =
        parameter.name.ends_with("o_proj.weight") || parameter.name.ends_with("down_proj.weight");
    EXPECT_EQ(parameter.grad().abs().max().item<double>() > 0.0, output) << parameter.name;
  }
}

TEST_F(CalInvariants, InitialWeightsDependOnSeedAndNameAlone) {
  weights::AdapterConfig fewer = new_config();
  fewer.placement = {fewer.placement.back()};
  const auto make = [&](const weights::AdapterConfig& config, uint64_t seed) {
    return create_adapter(config, *model_.source, {.seed = seed}, at::kFloat, at::kCPU, AdapterUse::kServe);
  };
  const auto all = make(new_config(), 3), part = make(fewer, 3), other = make(fewer, 4);
  const std::string name = "blocks." + std::to_string(fewer.placement.front()) + ".attn.q_proj.weight";
  const auto value = [&](const Adapter& adapter) {
    for (const AdapterParameter& parameter : adapter.parameters()) {
      if (parameter.name == name) return parameter.value();
    }
    return at::Tensor();
  };
  EXPECT_TRUE(at::equal(value(*all), value(*part)));
  EXPECT_FALSE(at::equal(value(*part), value(*other)));
  EXPECT_NEAR(value(*part).std().item<double>(), 0.02, 0.002);
}

TEST_F(CalInvariants, CopyBackboneTakesTheLayersOwnWeights) {
  const auto copied = create_adapter(new_config(), *model_.source, {.method = InitMethod::kCopyBackbone},
                                     at::kFloat, at::kCPU, AdapterUse::kServe);
  for (const AdapterParameter& parameter : copied->parameters()) {
    if (!parameter.name.ends_with("attn.k_proj.weight")) continue;
    const weights::TensorView* source =
        model_.source->find("model.layers." + std::to_string(parameter.layer) + ".self_attn.k_proj.weight");
    ASSERT_NE(source, nullptr);
    EXPECT_TRUE(at::equal(parameter.value().flatten(), at::tensor(weights::read_as_float(*source))));
  }
  weights::AdapterConfig narrow = new_config();
  narrow.cal.intermediate_size = 8;
  EXPECT_THROW(create_adapter(narrow, *model_.source, {.method = InitMethod::kCopyBackbone}, at::kFloat,
                              at::kCPU, AdapterUse::kServe),
               Error);
}

TEST_F(CalInvariants, GradientsEqualFiniteDifferences) {
  const auto trained = model_.adapter("default", AdapterUse::kTrain);
  model_.run(trained.get()).loss.backward();
  constexpr double kStep = 2e-3;
  for (const AdapterParameter& parameter : trained->parameters()) {
    if (!parameter.name.ends_with("proj.weight")) continue;
    const at::NoGradGuard no_grad;
    at::manual_seed(5);
    const at::Tensor direction = at::randn(parameter.value().sizes());
    const double expected = (parameter.grad() * direction).sum().item<double>();
    const auto loss_at = [&](double step) {
      parameter.value().add_(direction, step);
      const double loss = model_.run(trained.get()).loss.item<double>();
      parameter.value().sub_(direction, step);
      return loss;
    };
    const double measured = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    EXPECT_NEAR(measured, expected, 0.01 * std::abs(expected) + 1e-3) << parameter.name;
  }
}

}  // namespace
}  // namespace calyrex::model
