#include "calyrex/weights/dequantize.h"

#include <bit>
#include <cmath>
#include <limits>

#include "calyrex/weights/safetensors.h"
#include "tests/weights/test_files.h"

namespace calyrex::weights {
namespace {

class BlockTypes : public testing::TestWithParam<DType> {};

// Blocks and values come from the Python package gguf (tools/golden/weights_blocks.py).
TEST_P(BlockTypes, EqualsThePackageGgufBitForBit) {
  const SafetensorsFile file = SafetensorsFile::open("tests/golden/weights/blocks.safetensors");
  const std::string name(dtype_name(GetParam()));
  const TensorView* blocks = file.find(name + ".bytes");
  const TensorView* expected = file.find(name + ".values");
  ASSERT_NE(blocks, nullptr);
  ASSERT_NE(expected, nullptr);
  const int64_t count = expected->num_values();
  ASSERT_EQ(count / block_values(GetParam()) * block_bytes(GetParam()), blocks->num_values());
  std::vector<float> values(static_cast<size_t>(count));
  dequantize(GetParam(), blocks->data.data(), count, values.data());
  const std::vector<float> wanted = read_as_float(*expected);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(wanted[i]))
        << "value " << i << ": " << values[i] << " for " << wanted[i];
  }
}

TEST_P(BlockTypes, ReadsBytesOfAnyAlignment) {
  const SafetensorsFile file = SafetensorsFile::open("tests/golden/weights/blocks.safetensors");
  const TensorView* blocks = file.find(std::string(dtype_name(GetParam())) + ".bytes");
  const int64_t count = block_values(GetParam()) * 2;
  std::vector<float> wanted(static_cast<size_t>(count));
  dequantize(GetParam(), blocks->data.data(), count, wanted.data());
  for (size_t shift = 1; shift < 4; ++shift) {
    std::vector<std::byte> moved(shift);
    const auto bytes = static_cast<size_t>(2 * block_bytes(GetParam()));
    moved.insert(moved.end(), blocks->data.begin(), blocks->data.begin() + static_cast<ptrdiff_t>(bytes));
    std::vector<float> values(static_cast<size_t>(count));
    dequantize(GetParam(), moved.data() + shift, count, values.data());
    EXPECT_EQ(std::memcmp(values.data(), wanted.data(), values.size() * sizeof(float)), 0)
        << "shift " << shift;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlockTypes,
                         testing::Values(DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,
                                         DType::kQ5_1, DType::kQ8_0, DType::kQ2_K, DType::kQ3_K, DType::kQ4_K,
                                         DType::kQ5_K, DType::kQ6_K),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST(Dequantize, EveryHalfIsExact) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    float value = 0;
    dequantize(DType::kF16, reinterpret_cast<const std::byte*>(&half), 1, &value);
    const int exponent = (half >> 10) & 31;
    const int mantissa = half & 1023;
    const double sign = (half & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31 && mantissa != 0) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    double wanted = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31) wanted = std::numeric_limits<double>::infinity();
    ASSERT_EQ(static_cast<double>(value), sign * wanted) << bits;
    ASSERT_EQ(std::signbit(value), sign < 0) << bits;
  }
}

TEST(Dequantize, DoublesAreRounded) {
  const double source[2] = {1.0 / 3.0, -2.5};
  float values[2];
  dequantize(DType::kF64, reinterpret_cast<const std::byte*>(source), 2, values);
  EXPECT_EQ(values[0], 1.0f / 3.0f);
  EXPECT_EQ(values[1], -2.5f);
}

}  // namespace
}  // namespace calyrex::weights
