#include "calyrex/kernels/quant_rows.h"

#include <algorithm>
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

/// Where the codes of one row go.
struct RowCodes {
  int8_t* high;
  int8_t* low;
  float* scales;
  float* sums;
};

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
  FloatVec largest = hn::Zero(d);
  FloatVec poison = hn::Zero(d);
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int at = 0; at < kColumns; at += lanes) {
    const FloatVec v = hn::LoadU(d, x + at);
    largest = hn::Max(largest, hn::Abs(v));
    poison = hn::MulAdd(v, hn::Zero(d), poison);  // NaN once a value is not finite
  }
  const float top = hn::GetLane(hn::MaxOfLanes(d, largest));
  const float zero = hn::GetLane(hn::SumOfLanes(d, poison));
  if (!(zero == 0.0f)) return {std::numeric_limits<float>::quiet_NaN(), 0.0f};
  if (top < kSmallest) return {0.0f, 0.0f};
  return {top / levels, levels / top};
}

/// Codes of `kColumns` values; returns their sum. `low` is null for one plane.
template <int kColumns, bool kWide>
HWY_INLINE float write_codes(FloatTag d, const float* x, float inverse, int8_t* high, int8_t* low) {
  const hn::Rebind<int32_t, FloatTag> d32;
  const hn::Rebind<int8_t, FloatTag> d8;
  const FloatVec factor = hn::Set(d, inverse);
  const auto lanes = static_cast<int>(hn::Lanes(d));
  FloatVec sum = hn::Zero(d);
  for (int at = 0; at < kColumns; at += lanes) {
    const auto code = hn::NearestInt(hn::Mul(hn::LoadU(d, x + at), factor));
    sum = hn::Add(sum, hn::ConvertTo(d, code));
    if constexpr (kWide) {
      const auto upper = hn::ShiftRight<8>(hn::Add(code, hn::Set(d32, 128)));
      hn::StoreU(hn::DemoteTo(d8, upper), d8, high + at);
      hn::StoreU(hn::DemoteTo(d8, hn::Sub(code, hn::ShiftLeft<8>(upper))), d8, low + at);
    } else {
      hn::StoreU(hn::DemoteTo(d8, code), d8, high + at);
    }
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_INLINE void quantize_one_block(FloatTag d, const float* x, bool wide, int64_t block, const RowCodes& to) {
  const int64_t at = block * kQuantBlock;
  if (wide) {
    const Scale scale = find_scale<32>(d, x, 127.0f * 256.0f);
    to.scales[block] = scale.scale;
    to.sums[block] = scale.scale * write_codes<32, true>(d, x, scale.inverse, to.high + at, to.low + at);
    return;
  }
  float sum = 0.0f;
  for (int64_t half = 0; half < 2; ++half) {
    const float* values = x + half * 16;
    const Scale scale = find_scale<16>(d, values, 127.0f);
    to.scales[block * 2 + half] = scale.scale;
    sum += scale.scale * write_codes<16, false>(d, values, scale.inverse, to.high + at + half * 16, nullptr);
  }
  to.sums[block] = sum;
}

void quantize_row(const float* x, int64_t columns, bool wide, const RowCodes& to) {
  static_assert(hn::MaxLanes(FloatTag()) <= 16, "a vector must not reach beyond 16 columns");
  const FloatTag d;
  const int64_t whole = columns / kQuantBlock;
  for (int64_t block = 0; block < whole; ++block)
    quantize_one_block(d, x + block * kQuantBlock, wide, block, to);
  if (columns % kQuantBlock == 0) return;
  HWY_ALIGN float last[kQuantBlock] = {};
  std::copy(x + whole * kQuantBlock, x + columns, last);
  quantize_one_block(d, last, wide, whole, to);
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
  high_.resize(static_cast<size_t>(rows * stride()));
  if (precision == RowPrecision::kInt16) low_.resize(high_.size());
  scales_.resize(static_cast<size_t>(rows * scales_per_row()));
  sums_.resize(static_cast<size_t>(rows * sums_per_row()));
}

void quantize_rows(const float* x, int64_t stride, int64_t row_begin, int64_t row_end, QuantRows& out) {
  const auto kernel = CALYREX_KERNELS_DISPATCH(quantize_row);
  const bool wide = out.precision_ == RowPrecision::kInt16;
  for (int64_t row = row_begin; row < row_end; ++row) {
    kernel(x + (row - row_begin) * stride, out.columns_, wide,
           {.high = out.high_.data() + row * out.stride(),
            .low = wide ? out.low_.data() + row * out.stride() : nullptr,
            .scales = out.scales_.data() + row * out.scales_per_row(),
            .sums = out.sums_.data() + row * out.sums_per_row()});
  }
}

}  // namespace calyrex::kernels
#endif  // HWY_ONCE
