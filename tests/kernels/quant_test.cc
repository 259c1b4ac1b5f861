#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "calyrex/kernels/quant_matmul.h"
#include "calyrex/kernels/quant_matrix.h"
#include "calyrex/kernels/quant_rows.h"
#include "tests/kernels/kernel_test.h"

namespace calyrex::kernels {
namespace {

class QuantTest : public KernelTest {};

const QuantFormat kFormats[] = {{4, false}, {4, true}, {8, false}, {8, true}};
const RowPrecision kPrecisions[] = {RowPrecision::kInt8, RowPrecision::kInt16};

uint16_t half_of_sixteenths(int sixteenths) {
  // Every multiple of 1/16 up to 1 is exact in half precision.
  for (uint32_t bits = 0; bits < 0x4000; ++bits) {
    if (half_to_float(static_cast<uint16_t>(bits)) == static_cast<float>(std::abs(sixteenths)) / 16.0f)
      return static_cast<uint16_t>(bits | (sixteenths < 0 ? 0x8000u : 0u));
  }
  return 0;
}

std::vector<QuantBlock> random_blocks(int64_t count, QuantFormat format, std::mt19937_64& random) {
  std::vector<QuantBlock> blocks(static_cast<size_t>(count));
  for (QuantBlock& block : blocks) {
    for (uint8_t& code : block.codes) code = static_cast<uint8_t>(random() & ((1u << format.bits) - 1));
    block.scale = half_of_sixteenths(static_cast<int>(random() % 17));
    block.min = format.has_min ? half_of_sixteenths(static_cast<int>(random() % 33) - 16) : 0;
  }
  return blocks;
}

QuantMatrix random_matrix(int64_t rows, int64_t columns, QuantFormat format, uint64_t seed) {
  std::mt19937_64 random(seed);
  QuantMatrix matrix(rows, columns, format, std::make_shared<QuantArena>());
  for (int64_t row = 0; row < rows; ++row)
    matrix.set_row(row, random_blocks(matrix.blocks(), format, random));
  return matrix;
}

QuantRows quantized(const Doubles& values, int64_t rows, int64_t columns, RowPrecision precision) {
  TestArray<float> x(values, 1);
  QuantRows out;
  out.resize(rows, columns, precision);
  quantize_rows(x.data(), columns, 0, rows, out);
  return out;
}

TEST(QuantMatrixTest, BlocksComeBackAsTheyWereSet) {
  for (const QuantFormat format : kFormats) {
    std::mt19937_64 random(7);
    QuantMatrix matrix(19, 96, format, std::make_shared<QuantArena>());
    std::vector<std::vector<QuantBlock>> rows;
    for (int64_t row = 0; row < 19; ++row) {
      rows.push_back(random_blocks(3, format, random));
      matrix.set_row(row, rows.back());
    }
    for (int64_t row = 0; row < 19; ++row) {
      for (int64_t b = 0; b < 3; ++b) {
        const QuantBlock block = matrix.block(row, b);
        const QuantBlock& expected = rows[static_cast<size_t>(row)][static_cast<size_t>(b)];
        EXPECT_EQ(block.codes, expected.codes);
        EXPECT_EQ(block.scale, expected.scale);
        EXPECT_EQ(block.min, expected.min);
      }
    }
  }
}

TEST(QuantMatrixTest, BlockIsWithinHalfAStepOfItsValues) {
  for (const double size : {1e-3, 1.0, 1e3}) {
    const Doubles values = random_doubles(kQuantBlock, 3, size);
    std::vector<float> floats(values.begin(), values.end());
    const QuantBlock block = quantize_block(std::span<const float, kQuantBlock>(floats));
    const double step = half_to_float(block.scale);
    for (size_t n = 0; n < floats.size(); ++n) {
      // The largest value may lie beyond the last code by the rounding of the scale: 2^-11 of 127 steps.
      EXPECT_NEAR(step * (block.codes[n] - 128.0), floats[n], step * (0.5 + 127.0 / 2048.0));
    }
  }
  const std::vector<float> zeros(kQuantBlock);
  EXPECT_EQ(quantize_block(std::span<const float, kQuantBlock>(zeros)).scale, 0);
}

TEST_P(QuantTest, RowsAreWithinHalfAStep) {
  for (const RowPrecision precision : kPrecisions) {
    const int64_t columns = 96;
    const Doubles values = random_doubles(3 * columns, 5, 4.0);
    const QuantRows rows = quantized(values, 3, columns, precision);
    const Doubles back = reference::dequantize(rows);
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t b = 0; b < rows.blocks(); ++b) {
        double sum = 0.0;
        for (int64_t c = b * kQuantBlock; c < (b + 1) * kQuantBlock; ++c) {
          const double scale = rows.scales(row, b)[c % kQuantBlock / rows.columns_per_scale()];
          EXPECT_NEAR(back[row * columns + c], values[row * columns + c], scale * 0.501);
          sum += back[row * columns + c];
        }
        for (const QuantFormat format : kFormats) {
          const double factor = format.has_min ? 1.0 : -format.offset();
          EXPECT_NEAR(*rows.sum(row, b, format), factor * sum, std::abs(factor) * 1e-5 * 32);
        }
      }
    }
  }
}

TEST_P(QuantTest, ProductsEqualTheReference) {
  for (const QuantFormat format : kFormats) {
    for (const RowPrecision precision : kPrecisions) {
      for (const auto& [rows, columns, inner] : {std::array<int64_t, 3>{1, 1, 32},
                                                 {3, 17, 64},
                                                 {7, 48, 96},
                                                 {35, 31, 160},
                                                 {130, 16, 32},
                                                 {2, 18, 40}}) {
        const QuantMatrix w = random_matrix(columns, inner, format, 11);
        const QuantRows x = quantized(random_doubles(rows * inner, 13), rows, inner, precision);
        TestArray<float> out(rows * columns, 3);
        quant_matmul({.w = &w, .x = &x, .row_end = rows, .out = out.data(), .out_stride = columns}, 0,
                     w.groups());
        // Codes with a large offset cancel: the error is relative to what was summed, not to the sum.
        const double allowed = 1e-6 * static_cast<double>(inner) * (1 << format.bits);
        expect_within(out.values(), reference::quant_matmul(x, w), allowed);
        out.expect_guards_untouched();
      }
    }
  }
}

TEST_P(QuantTest, AddsWithAFactor) {
  const QuantMatrix w = random_matrix(20, 64, {4, true}, 1);
  const QuantRows x = quantized(random_doubles(5 * 64, 2), 5, 64, RowPrecision::kInt8);
  const Doubles before = random_doubles(5 * 20, 3);
  TestArray<float> out(before, 0);
  quant_matmul(
      {.w = &w, .x = &x, .row_end = 5, .out = out.data(), .out_stride = 20, .add = true, .factor = 0.5f}, 0,
      w.groups());
  Doubles expected = reference::quant_matmul(x, w);
  for (size_t n = 0; n < expected.size(); ++n) expected[n] = before[n] + 0.5 * expected[n];
  expect_within(out.values(), expected, 1e-3);
}

TEST_P(QuantTest, BitsDoNotDependOnTheOtherRows) {
  for (const RowPrecision precision : kPrecisions) {
    const QuantMatrix w = random_matrix(33, 96, {8, false}, 1);
    const int64_t rows = 37;
    const QuantRows x = quantized(random_doubles(rows * 96, 2), rows, 96, precision);
    TestArray<float> together(rows * 33, 0), alone(rows * 33, 0);
    quant_matmul({.w = &w, .x = &x, .row_end = rows, .out = together.data(), .out_stride = 33}, 0,
                 w.groups());
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t group = 0; group < w.groups(); ++group) {
        quant_matmul({.w = &w,
                      .x = &x,
                      .row_begin = row,
                      .row_end = row + 1,
                      .out = alone.data() + row * 33,
                      .out_stride = 33},
                     group, group + 1);
      }
    }
    EXPECT_EQ(alone.values(), together.values());
  }
}

TEST_P(QuantTest, ValuesThatAreNotFiniteShowInTheProduct) {
  const QuantMatrix w = random_matrix(16, 64, {4, false}, 1);
  for (const RowPrecision precision : kPrecisions) {
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      Doubles values = random_doubles(2 * 64, 2);
      values[64 + 40] = bad;
      const QuantRows x = quantized(values, 2, 64, precision);
      std::vector<float> out(32);
      quant_matmul({.w = &w, .x = &x, .row_end = 2, .out = out.data(), .out_stride = 16}, 0, 1);
      EXPECT_TRUE(std::isfinite(out[0]));
      EXPECT_TRUE(std::isnan(out[16]));
    }
  }
}

CALYREX_INSTANTIATE_KERNEL_TEST(QuantTest);

}  // namespace
}  // namespace calyrex::kernels
