// The blocks of TiledAttention with the bfloat16 products of AVX-512, which Highway's targets of this build
// lack.
#include "calyrex/kernels/attention_block.h"

#if defined(__x86_64__)
#include <immintrin.h>

// Only what follows is compiled for these instructions; callers ask the processor first.
#pragma GCC push_options
// gcc 12 takes the undefined operands inside its own intrinsics for a mistake.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")

namespace calyrex::kernels {
namespace {

constexpr int64_t kLanes = 16;

#define CALYREX_INLINE inline __attribute__((always_inline))

CALYREX_INLINE __m512 add_products(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

CALYREX_INLINE __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= kLanes ? 0xffffu : (1u << (count > 0 ? count : 0)) - 1u);
}

/// 2^x for x <= 0; NaN stays NaN. A Taylor polynomial around the nearest integer, within 3e-6.
CALYREX_INLINE __m512 power_of_two(__m512 x) {
  const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 part = _mm512_sub_ps(x, whole);
  __m512 sum = _mm512_set1_ps(1.3333558e-3f);
  sum = _mm512_fmadd_ps(sum, part, _mm512_set1_ps(9.6181291e-3f));
  sum = _mm512_fmadd_ps(sum, part, _mm512_set1_ps(5.5504109e-2f));
  sum = _mm512_fmadd_ps(sum, part, _mm512_set1_ps(2.4022651e-1f));
  sum = _mm512_fmadd_ps(sum, part, _mm512_set1_ps(6.9314718e-1f));
  sum = _mm512_fmadd_ps(sum, part, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(sum, whole);
}

/// Pairs of a row, which takes the first half of its place as floats.
CALYREX_INLINE const int32_t* query_pairs(const AttentionBlock& block, int64_t row) {
  return reinterpret_cast<const int32_t*>(block.queries + row * block.head_dim);
}

void prepare(const float* query, float factor, int64_t head_dim, float* to) {
  auto* pairs = reinterpret_cast<BFloat16*>(to);
  for (int64_t at = 0; at < head_dim; at += kLanes) {
    const __mmask16 lanes = first_lanes(head_dim - at);
    const __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, query + at), _mm512_set1_ps(factor));
    _mm256_mask_storeu_epi16(pairs + at, lanes, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(scaled)));
  }
}

/// Asks for a line in the second-level cache.
CALYREX_INLINE void fetch(const BFloat16* line) { __builtin_prefetch(line, /*rw=*/0, /*locality=*/2); }

/// scores[row + r] of kPages pages. The first rows of a block also fetch the next one, line by line: asked
/// for all at once, lines would queue up before the products and memory would rest during them.
template <int kRows, int kPages, bool kFetch>
CALYREX_INLINE void score_pages(const AttentionBlock& block, int64_t row, int64_t page) {
  __m512 sums[kRows][kPages];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPages; ++p) sums[r][p] = _mm512_setzero_ps();
  }
  const int32_t* queries = query_pairs(block, row);
  for (int64_t pair = 0; pair < block.head_dim / 2; ++pair) {
    __m512i keys[kPages];
#pragma GCC unroll 4
    for (int p = 0; p < kPages; ++p) {
      keys[p] = _mm512_loadu_si512(block.k_pages[page + p] + pair * 2 * kPageKeys);
      if (kFetch) fetch(block.next_k_pages[page + p] + pair * 2 * kPageKeys);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m512i query = _mm512_set1_epi32(queries[r * block.head_dim + pair]);
#pragma GCC unroll 4
      for (int p = 0; p < kPages; ++p) sums[r][p] = add_products(sums[r][p], keys[p], query);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPages; ++p) {
      _mm512_storeu_ps(block.scores + (row + r) * kBlockKeys + (page + p) * kPageKeys, sums[r][p]);
    }
  }
}

template <int kRows, bool kFetch>
CALYREX_INLINE void score_rows(const AttentionBlock& block, int64_t row, int64_t pages) {
  if (pages == kBlockPages) return score_pages<kRows, 4, kFetch>(block, row, 0);
  int64_t page = 0;
  for (; page + 2 <= pages; page += 2) score_pages<kRows, 2, kFetch>(block, row, page);
  if (page < pages) score_pages<kRows, 1, kFetch>(block, row, page);
}

/// Turns a row's scores into weights, as pairs of bfloat16 in the first half of their place, and returns the
/// factor for what was summed before.
CALYREX_INLINE float weigh_row(const AttentionBlock& block, int64_t row, int64_t pages) {
  float* scores = block.scores + row * kBlockKeys;
  const __m512 before = _mm512_set1_ps(block.maximum[row]);
  __m512 values[kBlockPages];
  __m512 best = before;
#pragma GCC unroll 4
  for (int64_t p = 0; p < kBlockPages; ++p) {
    if (p >= pages) break;
    values[p] = _mm512_loadu_ps(scores + p * kPageKeys);
    best = _mm512_mask_max_ps(best, first_lanes(block.visible[row] - p * kPageKeys), best, values[p]);
  }
  const __m512 top = _mm512_set1_ps(_mm512_reduce_max_ps(best));
  __m512 sum = _mm512_setzero_ps();
#pragma GCC unroll 4
  for (int64_t p = 0; p < kBlockPages; ++p) {
    if (p >= pages) break;
    const __m512 weight = _mm512_maskz_mov_ps(first_lanes(block.visible[row] - p * kPageKeys),
                                              power_of_two(_mm512_sub_ps(values[p], top)));
    sum = _mm512_add_ps(sum, weight);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(scores + p * kPageKeys / 2),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(weight)));
  }
  const bool first = block.maximum[row] == -__builtin_inff();
  const float factor = first ? 0.0f : _mm512_cvtss_f32(power_of_two(_mm512_sub_ps(before, top)));
  block.weight[row] = block.weight[row] * factor + _mm512_reduce_add_ps(sum);
  block.maximum[row] = _mm512_cvtss_f32(top);
  return factor;
}

/// out[row + r] = factor * out[row + r] + weights . values, for kColumns vectors from `at`.
template <int kRows, int kColumns, bool kFetch>
CALYREX_INLINE void add_columns(const AttentionBlock& block, int64_t row, const float* factors, int64_t at) {
  __m512 sums[kRows][kColumns];
  __mmask16 lanes[kColumns];
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) lanes[c] = first_lanes(block.head_dim - at - c * kLanes);
  float* out = block.out + row * block.head_dim + at;
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      sums[r][c] = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes[c], out + r * block.head_dim + c * kLanes),
                                 _mm512_set1_ps(factors[r]));
    }
  }
  const auto* weights = reinterpret_cast<const int32_t*>(block.scores + row * kBlockKeys);
  const int64_t keys = block.visible[row + kRows - 1];
  const auto add_pair = [&](int64_t key, __m512i kept) __attribute__((always_inline)) {
    const int64_t place = (key % kPageKeys / 2 * block.head_dim + at) * 2;
    const BFloat16* from = block.v_pages[key / kPageKeys] + place;
    __m512i values[kColumns];
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      values[c] = _mm512_and_si512(_mm512_maskz_loadu_epi32(lanes[c], from + c * 2 * kLanes), kept);
      if (kFetch) fetch(block.next_v_pages[key / kPageKeys] + place + c * 2 * kLanes);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m512i weight = _mm512_set1_epi32(weights[r * kBlockKeys + key / 2]);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) sums[r][c] = add_products(sums[r][c], values[c], weight);
    }
  };
  int64_t key = 0;
  for (; key + 2 <= keys; key += 2) add_pair(key, _mm512_set1_epi32(-1));
  // What lies behind the last key was perhaps never written.
  if (key < keys) add_pair(key, _mm512_set1_epi32(0xffff));
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      _mm512_mask_storeu_ps(out + r * block.head_dim + c * kLanes, lanes[c], sums[r][c]);
    }
  }
}

template <int kRows, bool kFetch>
CALYREX_INLINE void add_values(const AttentionBlock& block, int64_t row, const float* factors) {
  int64_t at = 0;
  for (; at + 4 * kLanes <= block.head_dim; at += 4 * kLanes) {
    add_columns<kRows, 4, kFetch>(block, row, factors, at);
  }
  for (; at < block.head_dim; at += kLanes) add_columns<kRows, 1, kFetch>(block, row, factors, at);
}

template <int kRows, bool kFetch>
CALYREX_INLINE void attend_rows(const AttentionBlock& block, int64_t row) {
  const int64_t pages = (block.visible[row + kRows - 1] + kPageKeys - 1) / kPageKeys;
  score_rows<kRows, kFetch>(block, row, pages);
  float factors[kRows];
  for (int r = 0; r < kRows; ++r) factors[r] = weigh_row(block, row + r, pages);
  add_values<kRows, kFetch>(block, row, factors);
}

/// At most 4 rows.
template <bool kFetch>
CALYREX_INLINE void attend_few(const AttentionBlock& block, int64_t row) {
  switch (block.rows - row) {
    case 0:
      return;
    case 1:
      return attend_rows<1, kFetch>(block, row);
    case 2:
      return attend_rows<2, kFetch>(block, row);
    case 3:
      return attend_rows<3, kFetch>(block, row);
    default:
      return attend_rows<4, kFetch>(block, row);
  }
}

void attend(const AttentionBlock& block) {
  attend_few<true>(block, 0);
  for (int64_t row = 4; row < block.rows; row += 4) attend_few<false>(block, row);
}

#undef CALYREX_INLINE

}  // namespace
}  // namespace calyrex::kernels
#pragma GCC diagnostic pop
#pragma GCC pop_options

namespace calyrex::kernels {

AttentionKernels attention_kernels_bf16() {
  static const bool supported = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
                                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return supported ? AttentionKernels{&prepare, &attend} : AttentionKernels{};
}

}  // namespace calyrex::kernels
#else
namespace calyrex::kernels {

AttentionKernels attention_kernels_bf16() { return {}; }

}  // namespace calyrex::kernels
#endif
