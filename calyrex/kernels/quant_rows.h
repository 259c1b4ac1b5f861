// Rows of activations as small integers with a scale for every few columns.
#pragma once

#include <cstdint>
#include <vector>

#include "calyrex/kernels/quant_matrix.h"

namespace calyrex::kernels {

/// kInt8: 8 bits, a scale for 16 columns. kInt16: 16 bits in two planes, a scale for 32 columns, at twice the
/// work of a product; for inputs whose columns differ much in size.
enum class RowPrecision { kInt8, kInt16 };

/// Rows to multiply by a QuantMatrix: x = scale * (high [* 256 + low]).
class QuantRows {
 public:
  /// Room for `rows`; what it held is lost.
  void resize(int64_t rows, int64_t columns, RowPrecision precision);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  RowPrecision precision() const { return precision_; }
  /// Columns with those that fill up the last block, which are zero.
  int64_t stride() const { return sums_per_row() * kQuantBlock; }
  int64_t columns_per_scale() const { return precision_ == RowPrecision::kInt8 ? 16 : 32; }
  int64_t scales_per_row() const { return stride() / columns_per_scale(); }
  int64_t sums_per_row() const { return (columns_ + kQuantBlock - 1) / kQuantBlock; }

  const int8_t* high(int64_t row) const { return high_.data() + row * stride(); }
  const int8_t* low(int64_t row) const { return low_.data() + row * stride(); }
  const float* scales(int64_t row) const { return scales_.data() + row * scales_per_row(); }
  /// Sum of the rounded values of each block of 32 columns, which meets a block's minimum.
  const float* sums(int64_t row) const { return sums_.data() + row * sums_per_row(); }

 private:
  friend void quantize_rows(const float* x, int64_t stride, int64_t row_begin, int64_t row_end,
                            QuantRows& out);

  int64_t rows_ = 0;
  int64_t columns_ = 0;
  RowPrecision precision_ = RowPrecision::kInt8;
  std::vector<int8_t> high_;   // [rows, stride]
  std::vector<int8_t> low_;    // [rows, stride], kInt16 only
  std::vector<float> scales_;  // [rows, scales_per_row]
  std::vector<float> sums_;    // [rows, sums_per_row]
};

/// Writes rows [row_begin, row_end) of `out`, rounding to nearest. A value that is not finite makes its scale
/// NaN, so that it shows in every product. On the calling thread; different rows may be done at the same
/// time.
void quantize_rows(const float* x,  // [row_end - row_begin, columns], rows `stride` apart
                   int64_t stride, int64_t row_begin, int64_t row_end, QuantRows& out);

}  // namespace calyrex::kernels
