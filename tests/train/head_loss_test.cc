// The fused head and cross-entropy against log_softmax over all logits.
#include "calyrex/train/head_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/model/tiny_models.h"
#include "tests/tolerances.h"

namespace calyrex::train {
namespace {

double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor wide = expected.to(at::kDouble);
  return ((actual.to(at::kDouble) - wide).abs().max() / wide.abs().max()).item<double>();
}

class HeadLossTest : public testing::TestWithParam<int64_t> {};

TEST_P(HeadLossTest, LossAndGradientEqualTheWholeLogits) {
  const int64_t rows = GetParam();
  const model::TinyModel tiny = model::TinyModel::open("qwen2");
  const model::Decoder& decoder = *tiny.decoder;
  const int64_t hidden = decoder.config().hidden_size, vocab = decoder.config().vocab_size;
  const at::Tensor normed =
      at::arange(rows * hidden, at::kFloat).mul_(0.37).sin_().view({rows, hidden}).mul_(3.0);
  const at::Tensor targets = at::arange(rows, at::kLong).mul_(17).remainder_(vocab);
  const at::Tensor plain = normed.clone().set_requires_grad(true);
  const at::Tensor logits = at::linear(plain, decoder.head().plain());
  const at::Tensor expected = -at::log_softmax(logits, 1).gather(1, targets.unsqueeze(1)).sum() * 0.125;
  expected.backward();

  const at::Tensor fused = normed.clone().set_requires_grad(true);
  const at::Tensor loss = head_loss(decoder, fused, targets, 0.125);
  EXPECT_LE(relative_error(loss.detach(), expected.detach()), tolerance::kFloat32Op);
  (loss * 2.0).backward();
  EXPECT_LE(relative_error(fused.grad(), plain.grad() * 2.0), tolerance::kFloat32Op);

  const at::Tensor without_gradient = head_loss(decoder, normed, targets, 0.125);
  EXPECT_LE(relative_error(without_gradient, expected.detach()), tolerance::kFloat32Op);
}

// One row, a few, and more than one chunk of the tiny vocabulary's rows.
INSTANTIATE_TEST_SUITE_P(Rows, HeadLossTest, testing::Values(1, 15, 40000));

}  // namespace
}  // namespace calyrex::train
