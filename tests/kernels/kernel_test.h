// What the kernel tests share: every target, odd counts and misalignments, comparison with double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "calyrex/kernels/bfloat16.h"
#include "calyrex/kernels/cpu_target.h"
#include "calyrex/kernels/reference.h"
#include "tests/tolerances.h"

namespace calyrex::kernels {

using reference::Doubles;

/// Runs its cases once on every target of this machine.
class KernelTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_cpu_target(GetParam()); }
  void TearDown() override { set_cpu_target(""); }
};

#define CALYREX_INSTANTIATE_KERNEL_TEST(Suite)                                                             \
  INSTANTIATE_TEST_SUITE_P(Targets, Suite, testing::ValuesIn(::calyrex::kernels::supported_cpu_targets()), \
                           [](const auto& info) { return info.param; })

/// Counts around the vector lengths of all targets (1, 8 and 16 lanes, and unrolled by 4).
inline std::vector<int64_t> odd_counts() {
  return {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 67, 127, 129, 576, 577};
}

template <typename T>
T from_double(double value) {
  T out;
  round_to(static_cast<float>(value), out);
  return out;
}

/// An array whose data starts `offset` elements into its allocation, with guards around it that must stay
/// untouched.
template <typename T>
class TestArray {
 public:
  TestArray(int64_t count, int64_t offset)
      : offset_(offset), count_(count), storage_(kGuard + offset + count + kGuard) {
    for (T& value : storage_) value = from_double<T>(kUntouched);
  }
  TestArray(const Doubles& values, int64_t offset) : TestArray(static_cast<int64_t>(values.size()), offset) {
    for (size_t n = 0; n < values.size(); ++n) data()[n] = from_double<T>(values[n]);
  }

  T* data() { return storage_.data() + kGuard + offset_; }
  int64_t count() const { return count_; }
  /// What the array holds, exactly.
  Doubles values() {
    Doubles out;
    for (int64_t n = 0; n < count_; ++n) out.push_back(to_float(data()[n]));
    return out;
  }
  void expect_guards_untouched() {
    for (int64_t n = 0; n < static_cast<int64_t>(storage_.size()); ++n) {
      const bool guard = n < kGuard + offset_ || n >= kGuard + offset_ + count_;
      if (!guard) continue;
      ASSERT_EQ(to_float(storage_[n]), static_cast<float>(kUntouched)) << "written outside, at " << n;
    }
  }

 private:
  static constexpr int64_t kGuard = 32;
  static constexpr double kUntouched = 96.5;
  int64_t offset_;
  int64_t count_;
  std::vector<T> storage_;
};

inline Doubles random_doubles(int64_t count, uint64_t seed, double spread = 1.0) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal(0.0, spread);
  Doubles out(count);
  for (double& value : out) value = normal(generator);
  return out;
}

template <typename T>
constexpr double kernel_tolerance() {
  return std::is_same_v<T, float> ? tolerance::kFloat32Kernel : tolerance::kBFloat16Rounding;
}

/// Every value within `absolute` of its expectation.
inline void expect_within(const Doubles& actual, const Doubles& expected, double absolute) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t n = 0; n < actual.size(); ++n) ASSERT_NEAR(actual[n], expected[n], absolute) << "at " << n;
}

/// Every value within `relative` of its expectation, measured against the larger of its magnitude and `floor`
/// times the largest magnitude (sums lose digits by cancellation).
inline void expect_close(const Doubles& actual, const Doubles& expected, double relative,
                         double floor = 1.0) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0.0;
  for (double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t n = 0; n < actual.size(); ++n) {
    const double allowed = relative * std::max(std::abs(expected[n]), floor * largest) + 1e-30;
    ASSERT_NEAR(actual[n], expected[n], allowed) << "at " << n << " of " << actual.size();
  }
}

}  // namespace calyrex::kernels
