// RMSNorm of one row and its gradient, compiled once a target. Included after foreach_target.h.
#if defined(CALYREX_KERNELS_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CALYREX_KERNELS_NORM_INL_H_
#undef CALYREX_KERNELS_NORM_INL_H_
#else
#define CALYREX_KERNELS_NORM_INL_H_
#endif

#include <cmath>

#include "calyrex/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calyrex::kernels::HWY_NAMESPACE {

HWY_INLINE float inverse_rms(FloatTag d, const float* x, int64_t dim, float eps) {
  const float squares = sum_over(d, dim, [&](int64_t at, auto extent, FloatVec so_far) HWY_ATTR {
    const FloatVec v = load(d, x + at, extent);
    return hn::MulAdd(v, v, so_far);
  });
  return 1.0f / std::sqrt(squares / static_cast<float>(dim) + eps);
}

/// out = x * inverse rms * weight; out may be x.
template <typename Out>
HWY_INLINE void normalise_row(FloatTag d, const float* x, const float* weight, float eps, int64_t dim,
                              Out* out) {
  const FloatVec inverse = hn::Set(d, inverse_rms(d, x, dim, eps));
  for_each_vector(d, dim, [&](int64_t at, auto extent) HWY_ATTR {
    const FloatVec scaled = hn::Mul(load(d, x + at, extent), inverse);
    store(d, hn::Mul(scaled, load(d, weight + at, extent)), out + at, extent);
  });
}

/// With g = grad_out * weight and i = 1/rms: grad_x = i * g - x * i^3 * sum(g * x) / dim, added to what
/// grad_x holds when kAccumulate. grad_weight (may be null) is added to.
template <bool kAccumulate, typename Grad, typename GradX>
HWY_INLINE void normalise_row_backward(FloatTag d, const float* x, const float* weight, float eps,
                                       const Grad* grad_out, int64_t dim, GradX* grad_x, float* grad_weight) {
  const float inverse = inverse_rms(d, x, dim, eps);
  const float dot = sum_over(d, dim, [&](int64_t at, auto extent, FloatVec so_far) HWY_ATTR {
    const FloatVec g = hn::Mul(load(d, grad_out + at, extent), load(d, weight + at, extent));
    return hn::MulAdd(g, load(d, x + at, extent), so_far);
  });
  const FloatVec vi = hn::Set(d, inverse);
  const FloatVec along_x = hn::Set(d, -inverse * inverse * inverse * dot / static_cast<float>(dim));
  for_each_vector(d, dim, [&](int64_t at, auto extent) HWY_ATTR {
    const FloatVec vx = load(d, x + at, extent);
    const FloatVec vg = load(d, grad_out + at, extent);
    const FloatVec g = hn::Mul(hn::Mul(vg, load(d, weight + at, extent)), vi);
    FloatVec by_x = hn::MulAdd(vx, along_x, g);
    if constexpr (kAccumulate) by_x = hn::Add(load(d, grad_x + at, extent), by_x);
    store(d, by_x, grad_x + at, extent);
    if (grad_weight != nullptr) {
      const FloatVec sum = hn::MulAdd(vg, hn::Mul(vx, vi), load(d, grad_weight + at, extent));
      store(d, sum, grad_weight + at, extent);
    }
  });
}

}  // namespace calyrex::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
