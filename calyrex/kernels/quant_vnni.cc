// quant_matmul() with the byte products of AVX-512 VNNI, which Highway's targets of this build lack.
#include "calyrex/kernels/quant_tile.h"

#if defined(__x86_64__)
#include <immintrin.h>

// Only what follows is compiled for these instructions; callers ask the processor first.
#pragma GCC push_options
// gcc 12 takes the undefined operands inside its own intrinsics for a mistake.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512vnni,avx512dq,f16c,fma")

namespace calyrex::kernels {
namespace {

__m512i broadcast(const int8_t* four) {
  int32_t bits;
  __builtin_memcpy(&bits, four, sizeof(bits));
  return _mm512_set1_epi32(bits);
}

__m512 halves(const uint16_t* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

/// The eight vectors of one block: columns 4n to 4n + 3 of sixteen rows.
template <int kBits>
inline __attribute__((always_inline)) void load_codes(const uint8_t* from, __m512i (&w)[8]) {
  if constexpr (kBits == 8) {
#pragma GCC unroll 8
    for (int n = 0; n < 8; ++n) w[n] = _mm512_loadu_si512(from + n * 64);
  } else {
    const __m512i nibble = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) {
      const __m512i both = _mm512_loadu_si512(from + n * 64);
      w[n] = _mm512_and_si512(both, nibble);
      w[n + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
    }
  }
}

/// Sum over columns [4 * kFirst, 4 * kFirst + 4 * kCount) of codes times x.
template <int kFirst, int kCount>
inline __attribute__((always_inline)) __m512i dot(const __m512i (&w)[8], const int8_t* x) {
  __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int n = kFirst; n < kFirst + kCount; ++n) sum = _mm512_dpbusd_epi32(sum, w[n], broadcast(x + 4 * n));
  return sum;
}

/// code * scale; weights without a minimum add what their offset makes of the block's sum.
template <bool kHasMin>
inline __attribute__((always_inline)) __m512 scaled(__m512i code, __m512 scale, __m512 sum) {
  const __m512 value = _mm512_cvtepi32_ps(code);
  return kHasMin ? _mm512_mul_ps(value, scale) : _mm512_fmadd_ps(value, scale, sum);
}

template <int kBits, bool kHasMin, bool kWide, int kRows>
void tile_kernel(const QuantTile& tile) {
  constexpr int kBlockBytes = kQuantLanes * kQuantBlock * kBits / 8;
  constexpr int kScalesPerBlock = kWide ? 1 : 2;
  __m512 sums[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) sums[r] = _mm512_setzero_ps();
  for (int64_t b = 0; b < tile.blocks; ++b) {
    __m512i w[8];
    const uint8_t* codes = tile.codes + b * kBlockBytes;
    load_codes<kBits>(codes, w);
    // Into the second-level cache: the first one's few buffers would hold up the loads of this group.
#pragma GCC unroll 8
    for (int line = 0; line < kBlockBytes; line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(codes + tile.group_bytes + line), _MM_HINT_T1);
    }
    _mm_prefetch(reinterpret_cast<const char*>(tile.scales + b * kQuantLanes) + tile.group_bytes,
                 _MM_HINT_T1);
    if constexpr (kHasMin) {
      _mm_prefetch(reinterpret_cast<const char*>(tile.minima + b * kQuantLanes) + tile.group_bytes,
                   _MM_HINT_T1);
    }
    const __m512 scale = halves(tile.scales + b * kQuantLanes);
    const __m512 minimum = kHasMin ? halves(tile.minima + b * kQuantLanes) : scale;
    const int8_t* high = tile.high + b * kQuantTile * kQuantBlock;
    const int8_t* low = kWide ? tile.low + b * kQuantTile * kQuantBlock : nullptr;
    const float* x_scales = tile.x_scales + b * kQuantTile * kScalesPerBlock;
    const float* x_sums = tile.x_sums + b * kQuantTile;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512 sum = _mm512_set1_ps(x_sums[r]);
      const __m512 x_scale = _mm512_set1_ps(x_scales[r * kScalesPerBlock]);
      __m512 product;
      if constexpr (kWide) {
        const __m512i code = _mm512_add_epi32(_mm512_slli_epi32(dot<0, 8>(w, high + r * kQuantBlock), 8),
                                              dot<0, 8>(w, low + r * kQuantBlock));
        product = scaled<kHasMin>(code, x_scale, sum);
      } else {
        product = scaled<kHasMin>(dot<0, 4>(w, high + r * kQuantBlock), x_scale, sum);
        product = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot<4, 4>(w, high + r * kQuantBlock)),
                                  _mm512_set1_ps(x_scales[r * kScalesPerBlock + 1]), product);
      }
      sums[r] = _mm512_fmadd_ps(product, scale, sums[r]);
      if constexpr (kHasMin) sums[r] = _mm512_fmadd_ps(minimum, sum, sums[r]);
    }
  }
  const auto mask = static_cast<__mmask16>((1u << tile.lanes) - 1u);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    float* out = tile.out + r * tile.out_stride;
    __m512 result = sums[r];
    if (tile.add) {
      result = _mm512_fmadd_ps(result, _mm512_set1_ps(tile.factor), _mm512_maskz_loadu_ps(mask, out));
    }
    _mm512_mask_storeu_ps(out, mask, result);
  }
}

template <int kBits, bool kHasMin, bool kWide>
QuantTileKernels kernels() {
  return {{&tile_kernel<kBits, kHasMin, kWide, 16>, &tile_kernel<kBits, kHasMin, kWide, 8>,
           &tile_kernel<kBits, kHasMin, kWide, 4>, &tile_kernel<kBits, kHasMin, kWide, 2>,
           &tile_kernel<kBits, kHasMin, kWide, 1>}};
}

}  // namespace
}  // namespace calyrex::kernels
#pragma GCC diagnostic pop
#pragma GCC pop_options

namespace calyrex::kernels {

QuantTileKernels quant_kernels_vnni(QuantFormat format, RowPrecision precision) {
  if (!__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("avx512bw")) return {};
  const bool wide = precision == RowPrecision::kInt16;
  if (format.bits == 4) {
    if (format.has_min) return wide ? kernels<4, true, true>() : kernels<4, true, false>();
    return wide ? kernels<4, false, true>() : kernels<4, false, false>();
  }
  if (format.has_min) return wide ? kernels<8, true, true>() : kernels<8, true, false>();
  return wide ? kernels<8, false, true>() : kernels<8, false, false>();
}

}  // namespace calyrex::kernels
#else
namespace calyrex::kernels {

QuantTileKernels quant_kernels_vnni(QuantFormat, RowPrecision) { return {}; }

}  // namespace calyrex::kernels
#endif
