// What the kernels of TiledAttention for each instruction set share. For this folder and its tests only.
#pragma once

#include <cstdint>

#include "calyrex/kernels/bfloat16.h"

namespace calyrex::kernels {

inline constexpr int64_t kPageKeys = 16;
inline constexpr int64_t kBlockPages = 4;
inline constexpr int64_t kBlockKeys = kPageKeys * kBlockPages;  // between two updates of the running maximum
inline constexpr int64_t kMaxTiledHeadDim = 256;

/// Rows of queries against up to 64 consecutive keys. The running sums are not divided by their weight yet,
/// and maxima are in powers of two: a key counts 2^(score - maximum).
struct AttentionBlock {
  int64_t rows = 0;
  int64_t head_dim = 0;
  const float* queries = nullptr;  // [rows, head_dim], as the kernel prepared them
  const BFloat16* k_pages[kBlockPages] = {};
  const BFloat16* v_pages[kBlockPages] = {};
  /// Of the block that will be asked for next, to be fetched meanwhile: pages lie scattered, and the
  /// processor does not see by itself where they are. Never null.
  const BFloat16* next_k_pages[kBlockPages] = {};
  const BFloat16* next_v_pages[kBlockPages] = {};
  const int32_t* visible = nullptr;  // [rows]: leading keys of the block that each sees, 1 to 64, ascending
  float* scores = nullptr;           // [rows, kBlockKeys], scratch
  float* out = nullptr;              // [rows, head_dim]
  float* maximum = nullptr;          // [rows]
  float* weight = nullptr;           // [rows]
};

struct AttentionKernels {
  /// One row of queries times `factor`, in the kernel's own form, in no more room than it has as floats.
  void (*prepare)(const float* query, float factor, int64_t head_dim, float* to) = nullptr;
  void (*attend)(const AttentionBlock& block) = nullptr;
};

/// AVX-512 with bfloat16 products; null when the machine lacks it.
AttentionKernels attention_kernels_bf16();

}  // namespace calyrex::kernels
