// Rows of activations as small integers with a scale for every few columns.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "calyrex/kernels/quant_matrix.h"

namespace calyrex::kernels {

/// kInt8: 8 bits, a scale for 16 columns. kInt16: 16 bits in two planes, a scale for 32 columns, at twice the
/// work of a product; for inputs whose columns differ much in size.
enum class RowPrecision { kInt8, kInt16 };

inline constexpr int64_t kQuantTile = 16;  // rows that lie together, block by block

/// Rows to multiply by a QuantMatrix: x = scale * (high [* 256 + low]). Sixteen rows form a tile, in which
/// the same block of all of them comes before the next block, so that a kernel reaches them at fixed
/// distances.
class QuantRows {
 public:
  /// Room for `rows`; what it held is lost.
  void resize(int64_t rows, int64_t columns, RowPrecision precision);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t blocks() const { return (columns_ + kQuantBlock - 1) / kQuantBlock; }
  RowPrecision precision() const { return precision_; }
  int64_t columns_per_scale() const { return precision_ == RowPrecision::kInt8 ? 16 : 32; }
  int64_t scales_per_block() const { return kQuantBlock / columns_per_scale(); }

  /// Codes of one block of a row; the next row's is kQuantBlock further, the next block's kQuantTile rows.
  /// Columns beyond the last one are zero.
  const int8_t* high(int64_t row, int64_t block) const { return high_.data() + at(row, block) * kQuantBlock; }
  const int8_t* low(int64_t row, int64_t block) const { return low_.data() + at(row, block) * kQuantBlock; }
  const float* scales(int64_t row, int64_t block) const {
    return scales_.data() + at(row, block) * scales_per_block();
  }
  /// Sum of the rounded values of a block, times what it meets in a product with such weights: 1 beside a
  /// minimum of their own, else -format.offset().
  const float* sum(int64_t row, int64_t block, QuantFormat format) const {
    return sums_[format.has_min ? 0 : format.bits == 4 ? 1 : 2].data() + at(row, block);
  }

 private:
  friend void quantize_rows(const float* x, int64_t stride, int64_t row_begin, int64_t row_end,
                            QuantRows& out);

  int64_t at(int64_t row, int64_t block) const {
    return (row / kQuantTile * blocks() + block) * kQuantTile + row % kQuantTile;
  }

  int64_t rows_ = 0;
  int64_t columns_ = 0;
  RowPrecision precision_ = RowPrecision::kInt8;
  std::vector<int8_t> high_;                // [tiles, blocks, kQuantTile, kQuantBlock]
  std::vector<int8_t> low_;                 // the same, kInt16 only
  std::vector<float> scales_;               // [tiles, blocks, kQuantTile, scales_per_block]
  std::array<std::vector<float>, 3> sums_;  // each [tiles, blocks, kQuantTile]
};

/// Writes rows [row_begin, row_end) of `out`, rounding to nearest. A value that is not finite makes its scale
/// NaN, so that it shows in every product. On the calling thread; different rows may be done at the same
/// time.
void quantize_rows(const float* x,  // [row_end - row_begin, columns], rows `stride` apart
                   int64_t stride, int64_t row_begin, int64_t row_end, QuantRows& out);

}  // namespace calyrex::kernels
