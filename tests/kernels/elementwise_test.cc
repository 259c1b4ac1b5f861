#include "calyrex/kernels/elementwise.h"

#include <bit>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace calyrex::kernels {
namespace {

class ElementwiseTest : public KernelTest {};

TEST(BFloat16Test, RoundsToNearestEven) {
  const auto rounded = [](uint32_t bits) { return to_bfloat16(std::bit_cast<float>(bits)); };
  EXPECT_EQ(rounded(0x3f808000u), 0x3f80u);  // a tie goes to the even neighbour below
  EXPECT_EQ(rounded(0x3f818000u), 0x3f82u);  // and above
  EXPECT_EQ(rounded(0x3f808001u), 0x3f81u);
  EXPECT_EQ(rounded(0x3f807fffu), 0x3f80u);
  EXPECT_EQ(rounded(0x7f7fffffu), 0x7f80u);  // the largest float overflows to infinity
  EXPECT_EQ(rounded(0xff800000u), 0xff80u);
  EXPECT_TRUE(std::isnan(to_float(rounded(0x7f800001u))));
  EXPECT_TRUE(std::isnan(to_float(rounded(0xffffffffu))));
}

/// Floats of every kind: each exponent, both signs, ties, infinities, NaN.
std::vector<float> difficult_floats() {
  std::vector<float> out;
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (uint32_t mantissa : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0x18000u, 0x7fffffu}) {
      for (uint32_t sign : {0u, 1u})
        out.push_back(std::bit_cast<float>(sign << 31 | exponent << 23 | mantissa));
    }
  }
  return out;
}

TEST_P(ElementwiseTest, ConversionEqualsScalarOnEveryKindOfFloat) {
  const std::vector<float> from = difficult_floats();
  std::vector<BFloat16> to(from.size());
  convert(from.data(), static_cast<int64_t>(from.size()), to.data());
  for (size_t n = 0; n < from.size(); ++n) {
    EXPECT_EQ(to[n], to_bfloat16(from[n])) << std::hex << std::bit_cast<uint32_t>(from[n]);
  }
  std::vector<float> back(to.size());
  convert(to.data(), static_cast<int64_t>(to.size()), back.data());
  for (size_t n = 0; n < to.size(); ++n) {
    EXPECT_EQ(std::bit_cast<uint32_t>(back[n]), static_cast<uint32_t>(to[n]) << 16);
  }
}

TEST_P(ElementwiseTest, ConversionAtOddSizesAndMisalignments) {
  for (int64_t count : odd_counts()) {
    for (int64_t offset : {0, 1, 5}) {
      TestArray<float> from(random_doubles(count, count), offset);
      TestArray<BFloat16> to(count, offset + 1);
      convert(from.data(), count, to.data());
      expect_close(to.values(), from.values(), tolerance::kBFloat16Rounding, /*floor=*/0.0);
      to.expect_guards_untouched();
      TestArray<float> back(count, offset + 1);
      convert(to.data(), count, back.data());
      EXPECT_EQ(back.values(), to.values());
      back.expect_guards_untouched();
    }
  }
}

template <typename Delta>
void check_add_scaled(int64_t count) {
  TestArray<float> x(random_doubles(count, 1), 1);
  TestArray<Delta> delta(random_doubles(count, 2), 3);
  Doubles expected = x.values();
  const Doubles added = delta.values();
  for (int64_t n = 0; n < count; ++n) expected[n] += 0.75 * added[n];
  add_scaled(x.data(), delta.data(), 0.75f, count);
  expect_close(x.values(), expected, tolerance::kFloat32Kernel);
  x.expect_guards_untouched();
}

TEST_P(ElementwiseTest, AddScaled) {
  for (int64_t count : odd_counts()) {
    check_add_scaled<float>(count);
    check_add_scaled<BFloat16>(count);
  }
  check_add_scaled<float>(100'003);
  check_add_scaled<BFloat16>(100'003);
}

TEST_P(ElementwiseTest, AddScaledByZeroChangesNoBit) {
  TestArray<float> x(random_doubles(100, 1), 1), delta(random_doubles(100, 2), 0);
  const Doubles before = x.values();
  add_scaled(x.data(), delta.data(), 0.0f, 100);
  EXPECT_EQ(x.values(), before);
}

template <typename T>
void check_swiglu(int64_t width, double spread) {
  const int64_t rows = 3;
  TestArray<T> gate_up(random_doubles(rows * 2 * width, width, spread), 1);
  TestArray<T> out(rows * width, 2);
  swiglu(gate_up.data(), rows, width, out.data());
  expect_close(out.values(), reference::swiglu(gate_up.values(), rows, width), kernel_tolerance<T>(),
               /*floor=*/1e-3);
  out.expect_guards_untouched();

  TestArray<T> grad_out(random_doubles(rows * width, width + 1), 3);
  TestArray<T> grad(rows * 2 * width, 1);
  swiglu_backward(gate_up.data(), grad_out.data(), rows, width, grad.data());
  expect_close(grad.values(), reference::swiglu_backward(gate_up.values(), grad_out.values(), rows, width),
               kernel_tolerance<T>(), /*floor=*/1e-2);
  grad.expect_guards_untouched();
}

TEST_P(ElementwiseTest, SwigluAndItsGradient) {
  for (int64_t width : odd_counts()) {
    for (double spread : {0.1, 2.0, 30.0}) {
      check_swiglu<float>(width, spread);
      check_swiglu<BFloat16>(width, spread);
    }
  }
}

TEST_P(ElementwiseTest, SwigluOfExtremeGates) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> gate_up = {-infinity, -1e30f, -200.0f, 0.0f, 200.0f, 1e30f, NAN,
                                      1.0f,      1.0f,   1.0f,    1.0f, 1.0f,   1.0f,  1.0f};
  std::vector<float> out(7);
  swiglu(gate_up.data(), 1, 7, out.data());
  EXPECT_NEAR(out[1], 0.0f, 1e-7);
  EXPECT_NEAR(out[2], 0.0f, 1e-30);
  EXPECT_EQ(out[3], 0.0f);
  EXPECT_EQ(out[4], 200.0f);
  EXPECT_EQ(out[5], 1e30f);
  EXPECT_TRUE(std::isnan(out[6]));
}

TEST_P(ElementwiseTest, SumOfSquares) {
  for (int64_t count : {0, 1, 17, 4095, 4097, 300'001}) {
    TestArray<float> values(random_doubles(count, 9), 1);
    double expected = 0.0;
    for (double value : values.values()) expected += value * value;
    EXPECT_NEAR(sum_of_squares(values.data(), count), expected, 1e-12 * expected);
  }
  const float large = 1e30f;  // its square is no float
  EXPECT_NEAR(sum_of_squares(&large, 1), 1e60, 1e53);
}

CALYREX_INSTANTIATE_KERNEL_TEST(ElementwiseTest);

}  // namespace
}  // namespace calyrex::kernels
