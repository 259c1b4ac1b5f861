// Vectors of floats over arrays of float or bfloat16, compiled once a target. Included after
// foreach_target.h.
#if defined(CALYREX_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CALYREX_KERNELS_SIMD_INL_H_
#undef CALYREX_KERNELS_SIMD_INL_H_
#else
#define CALYREX_KERNELS_SIMD_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "calyrex/kernels/bfloat16.h"
#include "calyrex/kernels/cpu_target.h"

HWY_BEFORE_NAMESPACE();
namespace calyrex::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

/// How much of a vector to read or write: all lanes, or the first few at the end of a row.
struct Whole {};
struct Part {
  size_t lanes;
};

HWY_INLINE FloatVec load(FloatTag d, const float* from, Whole) { return hn::LoadU(d, from); }

HWY_INLINE FloatVec load(FloatTag d, const BFloat16* from, Whole) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  const hn::Rebind<uint32_t, FloatTag> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from))));
}

/// Lanes beyond the part are zero.
template <typename T>
HWY_INLINE FloatVec load(FloatTag d, const T* from, Part part) {
  HWY_ALIGN T buffer[hn::MaxLanes(d)] = {};
  std::memcpy(buffer, from, part.lanes * sizeof(T));
  return load(d, buffer, Whole{});
}

HWY_INLINE void store(FloatTag d, FloatVec v, float* to, Whole) { hn::StoreU(v, d, to); }

/// Rounds as to_bfloat16().
HWY_INLINE void store(FloatTag d, FloatVec v, BFloat16* to, Whole) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  const hn::Rebind<uint32_t, FloatTag> d32;
  const hn::Rebind<int32_t, FloatTag> di32;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d32, 0x7fffu)), odd));
  const auto quiet_nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, 0x40u));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(v));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, hn::IfThenElse(is_nan, quiet_nan, rounded))), d16, to);
}

template <typename T>
HWY_INLINE void store(FloatTag d, FloatVec v, T* to, Part part) {
  HWY_ALIGN T buffer[hn::MaxLanes(d)];
  store(d, v, buffer, Whole{});
  std::memcpy(to, buffer, part.lanes * sizeof(T));
}

/// Calls f(offset, Whole) for each vector of [0, count), then f(offset, Part) for what is left.
template <typename Function>
HWY_INLINE void for_each_vector(FloatTag d, int64_t count, Function&& f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t at = 0;
  for (; at + lanes <= count; at += lanes) f(at, Whole{});
  if (at < count) f(at, Part{static_cast<size_t>(count - at)});
}

/// Sum over [0, count) of term(offset, extent, so_far), a fused multiply-add onto its last argument. Four
/// independent sums hide the latency; lanes beyond the end must add zero.
template <typename Term>
HWY_INLINE float sum_over(FloatTag d, int64_t count, Term&& term) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  FloatVec sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
  int64_t at = 0;
  for (; at + 4 * lanes <= count; at += 4 * lanes) {
    sum0 = term(at, Whole{}, sum0);
    sum1 = term(at + lanes, Whole{}, sum1);
    sum2 = term(at + 2 * lanes, Whole{}, sum2);
    sum3 = term(at + 3 * lanes, Whole{}, sum3);
  }
  for (; at + lanes <= count; at += lanes) sum0 = term(at, Whole{}, sum0);
  if (at < count) sum1 = term(at, Part{static_cast<size_t>(count - at)}, sum1);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

/// e^x for x <= 88; below the smallest float 0. Unlike Highway's, NaN stays NaN: a broken model must show.
HWY_INLINE FloatVec exp_or_nan(FloatTag d, FloatVec x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

/// 1 / (1 + e^-x)
HWY_INLINE FloatVec sigmoid(FloatTag d, FloatVec x) {
  const FloatVec e = exp_or_nan(d, hn::Min(hn::Neg(x), hn::Set(d, 88.0f)));
  return hn::Div(hn::Set(d, 1.0f), hn::Add(hn::Set(d, 1.0f), e));
}

}  // namespace calyrex::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard

#ifndef CALYREX_KERNELS_DISPATCH
/// The function compiled for the target in use.
#define CALYREX_KERNELS_DISPATCH(function) \
  (*((void)::calyrex::kernels::cpu_target(), &HWY_DYNAMIC_DISPATCH(function)))
#endif
