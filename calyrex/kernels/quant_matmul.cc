#include "calyrex/kernels/quant_matmul.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "calyrex/base/error.h"
#include "calyrex/kernels/cpu_target.h"
#include "calyrex/kernels/quant_tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "calyrex/kernels/quant_matmul.cc"
#include <hwy/foreach_target.h>

#include "calyrex/kernels/simd-inl.h"

// From SSE2 on, one instruction multiplies pairs of 16-bit values and adds each two neighbours.
#undef CALYREX_KERNELS_HAVE_PAIR_SUMS
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
#define CALYREX_KERNELS_HAVE_PAIR_SUMS 1
#else
#define CALYREX_KERNELS_HAVE_PAIR_SUMS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace calyrex::kernels::HWY_NAMESPACE {

using IntTag = hn::Rebind<int32_t, FloatTag>;
using IntVec = hn::Vec<IntTag>;

/// Four columns of a row of x, ready for byte_products().
struct FourColumns {
#if CALYREX_KERNELS_HAVE_PAIR_SUMS
  explicit HWY_INLINE FourColumns(const int8_t* from) {
    int32_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    const hn::Repartition<int16_t, IntTag> d16;
    const auto both = hn::BitCast(d16, hn::Set(IntTag(), bits));
    even = hn::ShiftRight<8>(hn::ShiftLeft<8>(both));
    odd = hn::ShiftRight<8>(both);
  }
  hn::Vec<hn::Repartition<int16_t, IntTag>> even, odd;
#else
  explicit HWY_INLINE FourColumns(const int8_t* from) {
    for (int n = 0; n < 4; ++n) value[n] = from[n];
  }
  int32_t value[4];
#endif
};

/// sum + the four unsigned bytes of each lane of w times the four columns of x.
HWY_INLINE IntVec byte_products(IntVec w, const FourColumns& x, IntVec sum) {
  const IntTag d;
#if CALYREX_KERNELS_HAVE_PAIR_SUMS
  const hn::Repartition<int16_t, IntTag> d16;
  const IntVec mask = hn::Set(d, 0x00ff00ff);
  IntVec unused = hn::Zero(d);
  const auto even = hn::BitCast(d16, hn::And(w, mask));
  const auto odd = hn::BitCast(d16, hn::And(hn::ShiftRight<8>(w), mask));
  sum = hn::ReorderWidenMulAccumulate(d, even, x.even, sum, unused);
  return hn::ReorderWidenMulAccumulate(d, odd, x.odd, sum, unused);
#else
  const IntVec byte = hn::Set(d, 0xff);
  sum = hn::Add(sum, hn::Mul(hn::And(w, byte), hn::Set(d, x.value[0])));
  sum = hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<8>(w), byte), hn::Set(d, x.value[1])));
  sum = hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<16>(w), byte), hn::Set(d, x.value[2])));
  return hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<24>(w), byte), hn::Set(d, x.value[3])));
#endif
}

HWY_INLINE FloatVec load_halves(FloatTag d, const uint16_t* from) {
  const hn::Rebind<hwy::float16_t, FloatTag> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
}

/// Lanes [lane, lane + vector) of a block's codes of columns 4 * n to 4 * n + 3.
template <int kBits>
HWY_INLINE IntVec load_codes(const uint8_t* block, int n, int64_t lane) {
  const IntTag d;
  const int chunk = kBits == 8 ? n : n % 4;
  const IntVec codes =
      hn::LoadU(d, reinterpret_cast<const int32_t*>(block + (chunk * kQuantLanes + lane) * 4));
  if constexpr (kBits == 8) return codes;
  return hn::And(n < 4 ? codes : hn::ShiftRight<4>(codes), hn::Set(d, 0x0f0f0f0f));
}

template <int kBits, bool kHasMin, bool kWide, int kRows>
HWY_INLINE void tile_lanes(const QuantTile& tile, int64_t lane, float* results) {
  constexpr int kBlockBytes = kQuantLanes * kQuantBlock * kBits / 8;
  constexpr int kScalesPerBlock = kWide ? 1 : 2;
  const FloatTag d;
  const IntTag di;
  FloatVec sums[kRows];
  for (int r = 0; r < kRows; ++r) sums[r] = hn::Zero(d);
  for (int64_t b = 0; b < tile.blocks; ++b) {
    // Of the two halves of the block, or with two planes of the high and the low one.
    IntVec first[kRows], second[kRows];
    for (int r = 0; r < kRows; ++r) first[r] = second[r] = hn::Zero(di);
    for (int n = 0; n < 8; ++n) {
      const IntVec w = load_codes<kBits>(tile.codes + b * kBlockBytes, n, lane);
      for (int r = 0; r < kRows; ++r) {
        const int64_t at = (b * kQuantTile + r) * kQuantBlock + 4 * n;
        const FourColumns high(tile.high + at);
        if (kWide || n < 4) {
          first[r] = byte_products(w, high, first[r]);
        } else {
          second[r] = byte_products(w, high, second[r]);
        }
        if constexpr (kWide) second[r] = byte_products(w, FourColumns(tile.low + at), second[r]);
      }
    }
    const FloatVec scale = load_halves(d, tile.scales + b * kQuantLanes + lane);
    for (int r = 0; r < kRows; ++r) {
      const float* x_scale = tile.x_scales + (b * kQuantTile + r) * kScalesPerBlock;
      const FloatVec sum = hn::Set(d, tile.x_sums[b * kQuantTile + r]);
      // What the offset of weights without a minimum makes of the block's sum.
      FloatVec product = kHasMin ? hn::Zero(d) : sum;
      if constexpr (kWide) {
        const IntVec code = hn::Add(hn::ShiftLeft<8>(first[r]), second[r]);
        product = hn::MulAdd(hn::ConvertTo(d, code), hn::Set(d, x_scale[0]), product);
      } else {
        product = hn::MulAdd(hn::ConvertTo(d, first[r]), hn::Set(d, x_scale[0]), product);
        product = hn::MulAdd(hn::ConvertTo(d, second[r]), hn::Set(d, x_scale[1]), product);
      }
      sums[r] = hn::MulAdd(product, scale, sums[r]);
      if constexpr (kHasMin) {
        sums[r] = hn::MulAdd(load_halves(d, tile.minima + b * kQuantLanes + lane), sum, sums[r]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) hn::StoreU(sums[r], d, results + r * kQuantLanes + lane);
}

template <int kBits, bool kHasMin, bool kWide, int kRows>
void tile_kernel(const QuantTile& tile) {
  HWY_ALIGN float results[kRows * kQuantLanes];
  const auto lanes = static_cast<int64_t>(hn::Lanes(FloatTag()));
  for (int64_t lane = 0; lane < tile.lanes; lane += lanes) {
    tile_lanes<kBits, kHasMin, kWide, kRows>(tile, lane, results);
  }
  for (int r = 0; r < kRows; ++r) {
    const float* row = results + r * kQuantLanes;
    float* out = tile.out + r * tile.out_stride;
    for (int64_t n = 0; n < tile.lanes; ++n) out[n] = tile.add ? out[n] + tile.factor * row[n] : row[n];
  }
}

// Targets without wide registers keep no more than four rows in them.
template <int kBits, bool kHasMin, bool kWide>
QuantTileKernels kernels() {
  return {{nullptr, nullptr, &tile_kernel<kBits, kHasMin, kWide, 4>, &tile_kernel<kBits, kHasMin, kWide, 2>,
           &tile_kernel<kBits, kHasMin, kWide, 1>}};
}

QuantTileKernels tile_kernels(QuantFormat format, RowPrecision precision) {
  const bool wide = precision == RowPrecision::kInt16;
  if (format.bits == 4) {
    if (format.has_min) return wide ? kernels<4, true, true>() : kernels<4, true, false>();
    return wide ? kernels<4, false, true>() : kernels<4, false, false>();
  }
  if (format.has_min) return wide ? kernels<8, true, true>() : kernels<8, true, false>();
  return wide ? kernels<8, false, true>() : kernels<8, false, false>();
}

}  // namespace calyrex::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calyrex::kernels {
namespace {

HWY_EXPORT(tile_kernels);

/// Rows that meet one group of weights before the next group is read: they stay in the second-level cache.
constexpr int64_t kRowsInCache = 128;

QuantTileKernels choose_kernels(QuantFormat format, RowPrecision precision) {
  if (cpu_target() == "avx512") {
    const QuantTileKernels vnni = quant_kernels_vnni(format, precision);
    if (vnni.by_rows[0] != nullptr) return vnni;
  }
  return CALYREX_KERNELS_DISPATCH(tile_kernels)(format, precision);
}

QuantTile make_tile(const QuantMatmulArgs& args, int64_t group) {
  const QuantMatrix& w = *args.w;
  QuantTile tile;
  tile.codes = reinterpret_cast<const uint8_t*>(w.codes(group));
  tile.scales = w.scales(group);
  tile.minima = w.minima(group);
  tile.blocks = w.blocks();
  tile.group_bytes = w.group_bytes();
  tile.out_stride = args.out_stride;
  tile.lanes = std::min(kQuantLanes, w.rows() - group * kQuantLanes);
  tile.add = args.add;
  tile.factor = args.factor;
  return tile;
}

}  // namespace

void quant_matmul(const QuantMatmulArgs& args, int64_t group_begin, int64_t group_end) {
  const QuantRows& x = *args.x;
  CALYREX_CHECK(args.w->columns() == x.columns(), "{} columns meet {}", args.w->columns(), x.columns());
  const QuantTileKernels kernels = choose_kernels(args.w->format(), x.precision());
  for (int64_t begin = args.row_begin; begin < args.row_end; begin += kRowsInCache) {
    const int64_t end = std::min(args.row_end, begin + kRowsInCache);
    for (int64_t group = group_begin; group < group_end; ++group) {
      QuantTile tile = make_tile(args, group);
      for (int64_t row = begin; row < end;) {
        const int64_t room = std::min(end, (row / kQuantTile + 1) * kQuantTile) - row;
        size_t n = 0;
        while (kernels.by_rows[n] == nullptr || kTileRows[n] > room) ++n;
        tile.high = x.high(row, 0);
        if (x.precision() == RowPrecision::kInt16) tile.low = x.low(row, 0);
        tile.x_scales = x.scales(row, 0);
        tile.x_sums = x.sum(row, 0, args.w->format());
        tile.out = args.out + (row - args.row_begin) * args.out_stride + group * kQuantLanes;
        kernels.by_rows[n](tile);
        row += kTileRows[n];
      }
    }
  }
}

}  // namespace calyrex::kernels
#endif  // HWY_ONCE
