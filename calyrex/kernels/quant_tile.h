// What the kernels of quant_matmul() for each instruction set share. For the .cc files of this folder only.
#pragma once

#include <cstdint>

#include "calyrex/kernels/quant_matmul.h"

namespace calyrex::kernels {

/// Some rows of one tile of x against one group of sixteen weight rows.
struct QuantTile {
  const uint8_t* codes = nullptr;
  const uint16_t* scales = nullptr;
  const uint16_t* minima = nullptr;
  int64_t blocks = 0;
  int64_t group_bytes = 0;       // from this group to the next, which is wanted soon
  const int8_t* high = nullptr;  // of the first row, as QuantRows lays them out
  const int8_t* low = nullptr;
  const float* x_scales = nullptr;
  const float* x_sums = nullptr;  // with the factor of the weights' format
  float* out = nullptr;           // of the first row and the group's first column
  int64_t out_stride = 0;
  int64_t lanes = 0;  // columns to write, 1 to kQuantLanes
  bool add = false;
  float factor = 1.0f;
};

/// Computes `rows` rows (1, 2, 4, 8 or 16) of a tile.
using QuantTileKernel = void (*)(const QuantTile& tile);

/// Row counts that kernels exist for, the largest first.
inline constexpr int kTileRows[] = {16, 8, 4, 2, 1};

/// Kernels for one format and precision, one a row count in the order of kTileRows; null where this
/// instruction set has none.
struct QuantTileKernels {
  QuantTileKernel by_rows[5] = {};
};

/// AVX-512 VNNI; all null when the machine lacks it.
QuantTileKernels quant_kernels_vnni(QuantFormat format, RowPrecision precision);

}  // namespace calyrex::kernels
