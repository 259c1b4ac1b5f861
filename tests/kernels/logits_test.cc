#include "calyrex/kernels/logits.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/kernels/kernel_test.h"

namespace calyrex::kernels {
namespace {

class LogitsTest : public KernelTest {};

TEST_P(LogitsTest, EqualsTheReference) {
  for (const int64_t count : {1, 2, 15, 16, 17, 1023, 1025, 5000}) {
    TestArray<float> logits(random_doubles(count, 1, 10.0), 1);
    const Doubles values = logits.values();
    const LogitsSummary summary = summarize_logits(logits.data(), count);
    EXPECT_EQ(summary.best, std::max_element(values.begin(), values.end()) - values.begin());
    EXPECT_NEAR(summary.log_sum_exp, values[0] - reference::log_softmax_pick(values, 0), 1e-5);
  }
}

TEST_P(LogitsTest, LowerIndexWinsATieAndNanShows) {
  std::vector<float> logits(40, 1.0f);
  logits[7] = logits[33] = 2.0f;
  EXPECT_EQ(summarize_logits(logits.data(), 40).best, 7);
  logits[20] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(summarize_logits(logits.data(), 40).log_sum_exp));
}

CALYREX_INSTANTIATE_KERNEL_TEST(LogitsTest);

}  // namespace
}  // namespace calyrex::kernels
