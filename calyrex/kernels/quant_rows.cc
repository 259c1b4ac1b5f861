#include "calyrex/kernels/quant_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "calyrex/base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "calyrex/kernels/quant_rows.cc"
#include <hwy/foreach_target.h>

#include "calyrex/kernels/simd-inl.h"

#ifndef CALYREX_KERNELS_QUANT_ROWS_ONCE
#define CALYREX_KERNELS_QUANT_ROWS_ONCE
namespace calyrex::kernels {
namespace {

/// Where the codes of one block of a row go.
struct BlockCodes {
  int8_t* high;
  int8_t* low;
  float* scales;
  std::array<float*, 3> sums;
};

/// What QuantRows::sum() multiplies by.
constexpr float kSumFactors[] = {1.0f, -8.0f, -128.0f};

/// Blocks whose largest value is below this count as zero: their reciprocal would overflow.
constexpr float kSmallest = 1e-30f;

}  // namespace
}  // namespace calyrex::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace calyrex::kernels::HWY_NAMESPACE {

/// Scale of `kColumns` values coded as -kLevels ... kLevels, and its reciprocal.
struct Scale {
  float scale;
  float inverse;
};
template <int kColumns>
HWY_INLINE Scale find_scale(FloatTag d, const float* x, float levels) {
  const hn::Rebind<int32_t, FloatTag> d32;
  // The bits of absolute values are in the order of the values, those that are not finite last.
  const auto magnitude = hn::Set(d32, 0x7fffffff);
  auto largest = hn::Zero(d32);
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int at = 0; at < kColumns; at += lanes) {
    largest = hn::Max(largest, hn::And(hn::BitCast(d32, hn::LoadU(d, x + at)), magnitude));
  }
  const float top = std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(d32, largest)));
  if (!(top <= std::numeric_limits<float>::max())) return {std::numeric_limits<float>::quiet_NaN(), 0.0f};
  if (top < kSmallest) return {0.0f, 0.0f};
  return {top / levels, levels / top};
}

/// Codes of `kColumns` values, whose rounded values are added to `sum`. `low` is null for one plane.
template <int kColumns, bool kWide>
HWY_INLINE FloatVec write_codes(FloatTag d, const float* x, Scale scale, int8_t* high, int8_t* low,
                                FloatVec sum) {
  const hn::Rebind<int32_t, FloatTag> d32;
  const hn::Rebind<int8_t, FloatTag> d8;
  const FloatVec inverse = hn::Set(d, scale.inverse);
  const FloatVec step = hn::Set(d, scale.scale);
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int at = 0; at < kColumns; at += lanes) {
    const auto code = hn::NearestInt(hn::Mul(hn::LoadU(d, x + at), inverse));
    sum = hn::MulAdd(hn::ConvertTo(d, code), step, sum);
    if constexpr (kWide) {
      const auto upper = hn::ShiftRight<8>(hn::Add(code, hn::Set(d32, 128)));
      hn::StoreU(hn::DemoteTo(d8, upper), d8, high + at);
      hn::StoreU(hn::DemoteTo(d8, hn::Sub(code, hn::ShiftLeft<8>(upper))), d8, low + at);
    } else {
      hn::StoreU(hn::DemoteTo(d8, code), d8, high + at);
    }
  }
  return sum;
}

HWY_INLINE void quantize_one_block(FloatTag d, const float* x, bool wide, const BlockCodes& to) {
  FloatVec sum = hn::Zero(d);
  if (wide) {
    const Scale scale = find_scale<32>(d, x, 127.0f * 256.0f);
    to.scales[0] = scale.scale;
    sum = write_codes<32, true>(d, x, scale, to.high, to.low, sum);
  } else {
    for (int half = 0; half < 2; ++half) {
      const float* values = x + half * 16;
      const Scale scale = find_scale<16>(d, values, 127.0f);
      to.scales[half] = scale.scale;
      sum = write_codes<16, false>(d, values, scale, to.high + half * 16, nullptr, sum);
    }
  }
  const float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (size_t n = 0; n < to.sums.size(); ++n) *to.sums[n] = kSumFactors[n] * total;
}

/// `to` is the row's first block.
void quantize_row(const float* x, int64_t columns, bool wide, BlockCodes to) {
  static_assert(hn::MaxLanes(FloatTag()) <= 16, "a vector must not reach beyond 16 columns");
  const FloatTag d;
  for (int64_t begin = 0; begin < columns; begin += kQuantBlock) {
    if (columns - begin >= kQuantBlock) {
      quantize_one_block(d, x + begin, wide, to);
    } else {
      HWY_ALIGN float last[kQuantBlock] = {};
      std::copy(x + begin, x + columns, last);
      quantize_one_block(d, last, wide, to);
    }
    to.high += kQuantTile * kQuantBlock;
    if (wide) to.low += kQuantTile * kQuantBlock;
    to.scales += kQuantTile * (wide ? 1 : 2);
    for (float*& sum : to.sums) sum += kQuantTile;
  }
}

}  // namespace calyrex::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calyrex::kernels {
namespace {

HWY_EXPORT(quantize_row);

}  // namespace

void QuantRows::resize(int64_t rows, int64_t columns, RowPrecision precision) {
  CALYREX_CHECK(rows >= 0 && columns >= 0, "[{}, {}]", rows, columns);
  rows_ = rows;
  columns_ = columns;
  precision_ = precision;
  const auto blocks_of_rows =
      static_cast<size_t>((rows + kQuantTile - 1) / kQuantTile * kQuantTile * blocks());
  high_.resize(blocks_of_rows * kQuantBlock);
  if (precision == RowPrecision::kInt16) low_.resize(high_.size());
  scales_.resize(blocks_of_rows * static_cast<size_t>(scales_per_block()));
  for (std::vector<float>& sums : sums_) sums.resize(blocks_of_rows);
}

void quantize_rows(const float* x, int64_t stride, int64_t row_begin, int64_t row_end, QuantRows& out) {
  const auto kernel = CALYREX_KERNELS_DISPATCH(quantize_row);
  const bool wide = out.precision_ == RowPrecision::kInt16;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const int64_t at = out.at(row, 0);
    kernel(x + (row - row_begin) * stride, out.columns_, wide,
           {.high = out.high_.data() + at * kQuantBlock,
            .low = wide ? out.low_.data() + at * kQuantBlock : nullptr,
            .scales = out.scales_.data() + at * out.scales_per_block(),
            .sums = {out.sums_[0].data() + at, out.sums_[1].data() + at, out.sums_[2].data() + at}});
  }
}

}  // namespace calyrex::kernels
#endif  // HWY_ONCE
