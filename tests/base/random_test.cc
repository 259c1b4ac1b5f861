#include "calyrex/base/random.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace calyrex {
namespace {

TEST(RandomStream, SameSeedAndNameSameNumbers) {
  RandomStream first(1, "a"), second(1, "a"), other_name(1, "b"), other_seed(2, "a");
  const uint64_t value = first.next();
  EXPECT_EQ(value, second.next());
  EXPECT_NE(value, other_name.next());
  EXPECT_NE(value, other_seed.next());
}

TEST(RandomStream, TheStateIsTheFourWords) {
  RandomStream stream(3, "s");
  stream.normal();
  RandomStream copy(0, "x");
  copy.set_state(stream.state());
  for (int n = 0; n < 10; ++n) EXPECT_EQ(stream.normal(), copy.normal());
}

TEST(RandomStream, MomentsOfTheDistributions) {
  RandomStream stream(4, "moments");
  constexpr int kCount = 100'000;
  double mean = 0, square = 0, uniform = 0;
  for (int n = 0; n < kCount; ++n) {
    const double value = stream.normal();
    mean += value / kCount;
    square += value * value / kCount;
    const double u = stream.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    uniform += u / kCount;
  }
  EXPECT_NEAR(mean, 0.0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(square, 1.0, 10 / std::sqrt(kCount));
  EXPECT_NEAR(uniform, 0.5, 2 / std::sqrt(kCount));
}

TEST(RandomStream, BelowIsUniform) {
  RandomStream stream(5, "below");
  std::array<int, 7> counts{};
  for (int n = 0; n < 70'000; ++n) ++counts[stream.below(counts.size())];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
}

TEST(RandomStream, ShufflePermutes) {
  std::vector<int> values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<int> before = values;
  RandomStream(6, "shuffle").shuffle(values);
  EXPECT_NE(values, before);
  std::sort(values.begin(), values.end());
  EXPECT_EQ(values, before);
}

}  // namespace
}  // namespace calyrex
