// Products of activation rows with quantised weights: integer products inside a block, float32 across blocks.
#pragma once

#include <cstdint>

#include "calyrex/kernels/quant_matrix.h"
#include "calyrex/kernels/quant_rows.h"

namespace calyrex::kernels {

/// out[r, c] = x[r] . w[c], or with `add` out[r, c] += factor * (x[r] . w[c]), for the rows
/// [row_begin, row_end) of x. Each element is summed block by block in one order, so its bits depend neither
/// on the other rows nor on the number of threads.
struct QuantMatmulArgs {
  const QuantMatrix* w = nullptr;  // [columns of out, inner]
  const QuantRows* x = nullptr;    // [rows, inner]
  int64_t row_begin = 0;
  int64_t row_end = 0;
  float* out = nullptr;  // of row_begin; rows `out_stride` apart
  int64_t out_stride = 0;
  bool add = false;
  float factor = 1.0f;
};

/// The columns of the weight groups [group_begin, group_end), on the calling thread.
void quant_matmul(const QuantMatmulArgs& args, int64_t group_begin, int64_t group_end);

}  // namespace calyrex::kernels
