#include "calyrex/kernels/cross_entropy.h"

#include <limits>

#include "tests/kernels/kernel_test.h"

namespace calyrex::kernels {
namespace {

class CrossEntropyTest : public KernelTest {};

Doubles row_of(const Doubles& values, int64_t row, int64_t columns) {
  return {values.begin() + row * columns, values.begin() + (row + 1) * columns};
}

std::vector<int32_t> targets_of(int64_t rows, int64_t vocab) {
  std::vector<int32_t> targets(rows);
  for (int64_t r = 0; r < rows; ++r) targets[r] = static_cast<int32_t>((r * 7919 + vocab - 1) % vocab);
  return targets;
}

TEST_P(CrossEntropyTest, PickEqualsReference) {
  for (int64_t vocab : odd_counts()) {
    const int64_t rows = 4;
    TestArray<float> logits(random_doubles(rows * vocab, vocab, 4.0), 1);
    const std::vector<int32_t> targets = targets_of(rows, vocab);
    std::vector<float> logprobs(rows);
    std::vector<uint8_t> greedy(rows);
    log_softmax_pick(logits.data(), targets.data(), rows, vocab, logprobs.data(), greedy.data());
    for (int64_t r = 0; r < rows; ++r) {
      const Doubles row = row_of(logits.values(), r, vocab);
      EXPECT_NEAR(logprobs[r], reference::log_softmax_pick(row, targets[r]), 1e-5);
      const auto best = std::max_element(row.begin(), row.end()) - row.begin();
      EXPECT_EQ(greedy[r], best == targets[r] ? 1 : 0);
    }
  }
}

TEST_P(CrossEntropyTest, LargeVocabularyKeepsItsDigits) {
  const int64_t vocab = 151'936;
  TestArray<float> logits(random_doubles(vocab, 3, 5.0), 0);
  const int32_t target = 77'777;
  float logprob = 0.0f;
  log_softmax_pick(logits.data(), &target, 1, vocab, &logprob, nullptr);
  EXPECT_NEAR(logprob, reference::log_softmax_pick(logits.values(), target), 2e-5);
}

TEST_P(CrossEntropyTest, TieGoesToTheLowerId) {
  std::vector<float> logits(40, -1.0f);
  logits[5] = logits[33] = 2.0f;
  for (const auto& [target, expected] : {std::pair{5, 1}, {33, 0}, {0, 0}}) {
    const int32_t id = target;
    float logprob = 0.0f;
    uint8_t greedy = 9;
    log_softmax_pick(logits.data(), &id, 1, 40, &logprob, &greedy);
    EXPECT_EQ(greedy, expected) << target;
  }
}

TEST_P(CrossEntropyTest, BrokenLogitsGiveNan) {
  for (float broken : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (int64_t at : {0, 16, 36}) {
      std::vector<float> logits(37, 0.5f);
      logits[at] = broken;
      const int32_t target = 3;
      float value = 0.0f;
      log_softmax_pick(logits.data(), &target, 1, 37, &value, nullptr);
      EXPECT_TRUE(std::isnan(value)) << broken << " at " << at;
      std::vector<float> grad(37);
      cross_entropy(logits.data(), &target, 1, 37, 1.0f, &value, grad.data());
      EXPECT_TRUE(std::isnan(value)) << broken << " at " << at;
    }
  }
}

TEST_P(CrossEntropyTest, MinusInfinityHasNoProbability) {
  std::vector<float> logits(20, -std::numeric_limits<float>::infinity());
  logits[2] = logits[18] = 1.0f;
  const int32_t target = 18;
  float loss = 0.0f;
  std::vector<float> grad(20);
  cross_entropy(logits.data(), &target, 1, 20, 1.0f, &loss, grad.data());
  EXPECT_NEAR(loss, std::log(2.0), 1e-6);
  EXPECT_EQ(grad[0], 0.0f);
  EXPECT_NEAR(grad[2], 0.5, 1e-6);
  EXPECT_NEAR(grad[18], -0.5, 1e-6);
}

template <typename Grad>
void check_gradient(int64_t vocab) {
  const int64_t rows = 3;
  const float factor = 0.125f;
  TestArray<float> logits(random_doubles(rows * vocab, vocab, 3.0), 1);
  const std::vector<int32_t> targets = targets_of(rows, vocab);
  std::vector<float> losses(rows);
  TestArray<Grad> grad(rows * vocab, 3);
  cross_entropy(logits.data(), targets.data(), rows, vocab, factor, losses.data(), grad.data());
  for (int64_t r = 0; r < rows; ++r) {
    const Doubles row = row_of(logits.values(), r, vocab);
    Doubles expected = reference::cross_entropy_grad(row, targets[r]);
    for (double& value : expected) value *= factor;
    expect_close(row_of(grad.values(), r, vocab), expected, kernel_tolerance<Grad>());
    EXPECT_NEAR(losses[r], -reference::log_softmax_pick(row, targets[r]), 1e-5);
  }
  grad.expect_guards_untouched();
}

TEST_P(CrossEntropyTest, GradientEqualsReference) {
  for (int64_t vocab : odd_counts()) {
    check_gradient<float>(vocab);
    check_gradient<BFloat16>(vocab);
  }
}

TEST_P(CrossEntropyTest, GradientInPlaceEqualsGradientApart) {
  const int64_t rows = 3, vocab = 101;
  TestArray<float> logits(random_doubles(rows * vocab, 1, 3.0), 1), apart(rows * vocab, 0);
  const std::vector<int32_t> targets = targets_of(rows, vocab);
  std::vector<float> losses(rows);
  cross_entropy(logits.data(), targets.data(), rows, vocab, 2.0f, losses.data(), apart.data());
  cross_entropy(logits.data(), targets.data(), rows, vocab, 2.0f, losses.data(), logits.data());
  EXPECT_EQ(logits.values(), apart.values());
}

CALYREX_INSTANTIATE_KERNEL_TEST(CrossEntropyTest);

}  // namespace
}  // namespace calyrex::kernels
