#include "calyrex/kernels/elementwise.h"

#include <vector>

#include "calyrex/kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "calyrex/kernels/elementwise.cc"
#include <hwy/foreach_target.h>

#include "calyrex/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calyrex::kernels::HWY_NAMESPACE {

template <typename From, typename To>
HWY_INLINE void convert_array(const From* from, int64_t count, To* to) {
  const FloatTag d;
  for_each_vector(d, count, [&](int64_t at, auto extent) HWY_ATTR {
    store(d, load(d, from + at, extent), to + at, extent);
  });
}

template <typename Delta>
HWY_INLINE void add_scaled_array(float* x, const Delta* delta, float scale, int64_t count) {
  const FloatTag d;
  const FloatVec factor = hn::Set(d, scale);
  for_each_vector(d, count, [&](int64_t at, auto extent) HWY_ATTR {
    const FloatVec sum = hn::MulAdd(load(d, delta + at, extent), factor, load(d, x + at, extent));
    store(d, sum, x + at, extent);
  });
}

template <typename T>
HWY_INLINE void swiglu_rows(const T* gate_up, int64_t rows, int64_t width, T* out) {
  const FloatTag d;
  for (int64_t r = 0; r < rows; ++r) {
    const T* gate = gate_up + r * 2 * width;
    const T* up = gate + width;
    T* out_row = out + r * width;
    for_each_vector(d, width, [&](int64_t at, auto extent) HWY_ATTR {
      const FloatVec g = load(d, gate + at, extent);
      const FloatVec silu = hn::Mul(g, sigmoid(d, g));
      store(d, hn::Mul(silu, load(d, up + at, extent)), out_row + at, extent);
    });
  }
}

/// d silu(g)/dg = s * (1 + g * (1 - s)) with s = sigmoid(g).
template <typename T>
HWY_INLINE void swiglu_backward_rows(const T* gate_up, const T* grad_out, int64_t rows, int64_t width,
                                     T* grad_gate_up) {
  const FloatTag d;
  const FloatVec one = hn::Set(d, 1.0f);
  for (int64_t r = 0; r < rows; ++r) {
    const T* gate = gate_up + r * 2 * width;
    const T* up = gate + width;
    const T* grad_row = grad_out + r * width;
    T* grad_gate = grad_gate_up + r * 2 * width;
    T* grad_up = grad_gate + width;
    for_each_vector(d, width, [&](int64_t at, auto extent) HWY_ATTR {
      const FloatVec g = load(d, gate + at, extent);
      const FloatVec grad = load(d, grad_row + at, extent);
      const FloatVec s = sigmoid(d, g);
      const FloatVec silu_slope = hn::Mul(s, hn::MulAdd(g, hn::Sub(one, s), one));
      const FloatVec by_gate = hn::Mul(hn::Mul(grad, load(d, up + at, extent)), silu_slope);
      store(d, hn::Mul(grad, hn::Mul(g, s)), grad_up + at, extent);
      store(d, by_gate, grad_gate + at, extent);
    });
  }
}

void convert_f32_bf16(const float* from, int64_t count, BFloat16* to) { convert_array(from, count, to); }
void convert_bf16_f32(const BFloat16* from, int64_t count, float* to) { convert_array(from, count, to); }
void add_scaled_f32(float* x, const float* delta, float scale, int64_t count) {
  add_scaled_array(x, delta, scale, count);
}
void add_scaled_bf16(float* x, const BFloat16* delta, float scale, int64_t count) {
  add_scaled_array(x, delta, scale, count);
}
void swiglu_f32(const float* gate_up, int64_t rows, int64_t width, float* out) {
  swiglu_rows(gate_up, rows, width, out);
}
void swiglu_bf16(const BFloat16* gate_up, int64_t rows, int64_t width, BFloat16* out) {
  swiglu_rows(gate_up, rows, width, out);
}
void swiglu_backward_f32(const float* gate_up, const float* grad_out, int64_t rows, int64_t width,
                         float* grad_gate_up) {
  swiglu_backward_rows(gate_up, grad_out, rows, width, grad_gate_up);
}
void swiglu_backward_bf16(const BFloat16* gate_up, const BFloat16* grad_out, int64_t rows, int64_t width,
                          BFloat16* grad_gate_up) {
  swiglu_backward_rows(gate_up, grad_out, rows, width, grad_gate_up);
}

double sum_of_squares_f32(const float* values, int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto even = hn::Zero(d), odd = hn::Zero(d);
  int64_t at = 0;
  for (; at + 2 * lanes <= count; at += 2 * lanes) {
    const auto first = hn::PromoteTo(d, hn::LoadU(narrow, values + at));
    const auto second = hn::PromoteTo(d, hn::LoadU(narrow, values + at + lanes));
    even = hn::MulAdd(first, first, even);
    odd = hn::MulAdd(second, second, odd);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; at < count; ++at) sum += double{values[at]} * double{values[at]};
  return sum;
}

}  // namespace calyrex::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calyrex::kernels {
namespace {

HWY_EXPORT(convert_f32_bf16);
HWY_EXPORT(convert_bf16_f32);
HWY_EXPORT(add_scaled_f32);
HWY_EXPORT(add_scaled_bf16);
HWY_EXPORT(swiglu_f32);
HWY_EXPORT(swiglu_bf16);
HWY_EXPORT(swiglu_backward_f32);
HWY_EXPORT(swiglu_backward_bf16);
HWY_EXPORT(sum_of_squares_f32);

/// Elements a thread takes at least when an array is shared: whole cache lines of every element type.
constexpr int64_t kArrayGrain = 4096;

template <typename Function>
void parallel_array(int64_t count, Function&& f) {
  parallel_for((count + kArrayGrain - 1) / kArrayGrain, kArrayGrain, [&](int64_t begin, int64_t end) {
    f(begin * kArrayGrain, std::min(end * kArrayGrain, count));
  });
}

template <typename T, typename Kernel>
void run_swiglu(Kernel kernel, const T* gate_up, int64_t rows, int64_t width, T* out) {
  parallel_for(rows, 2 * width, [&](int64_t begin, int64_t end) {
    kernel(gate_up + begin * 2 * width, end - begin, width, out + begin * width);
  });
}

template <typename T, typename Kernel>
void run_swiglu_backward(Kernel kernel, const T* gate_up, const T* grad_out, int64_t rows, int64_t width,
                         T* grad_gate_up) {
  parallel_for(rows, 4 * width, [&](int64_t begin, int64_t end) {
    kernel(gate_up + begin * 2 * width, grad_out + begin * width, end - begin, width,
           grad_gate_up + begin * 2 * width);
  });
}

}  // namespace

void convert(const float* from, int64_t count, BFloat16* to) {
  const auto kernel = CALYREX_KERNELS_DISPATCH(convert_f32_bf16);
  parallel_array(count, [&](int64_t begin, int64_t end) { kernel(from + begin, end - begin, to + begin); });
}
void convert(const BFloat16* from, int64_t count, float* to) {
  const auto kernel = CALYREX_KERNELS_DISPATCH(convert_bf16_f32);
  parallel_array(count, [&](int64_t begin, int64_t end) { kernel(from + begin, end - begin, to + begin); });
}

void add_scaled(float* x, const float* delta, float scale, int64_t count) {
  const auto kernel = CALYREX_KERNELS_DISPATCH(add_scaled_f32);
  parallel_array(count,
                 [&](int64_t begin, int64_t end) { kernel(x + begin, delta + begin, scale, end - begin); });
}
void add_scaled(float* x, const BFloat16* delta, float scale, int64_t count) {
  const auto kernel = CALYREX_KERNELS_DISPATCH(add_scaled_bf16);
  parallel_array(count,
                 [&](int64_t begin, int64_t end) { kernel(x + begin, delta + begin, scale, end - begin); });
}

void swiglu(const float* gate_up, int64_t rows, int64_t width, float* out) {
  run_swiglu(CALYREX_KERNELS_DISPATCH(swiglu_f32), gate_up, rows, width, out);
}
void swiglu(const BFloat16* gate_up, int64_t rows, int64_t width, BFloat16* out) {
  run_swiglu(CALYREX_KERNELS_DISPATCH(swiglu_bf16), gate_up, rows, width, out);
}
void swiglu_backward(const float* gate_up, const float* grad_out, int64_t rows, int64_t width,
                     float* grad_gate_up) {
  run_swiglu_backward(CALYREX_KERNELS_DISPATCH(swiglu_backward_f32), gate_up, grad_out, rows, width,
                      grad_gate_up);
}
void swiglu_backward(const BFloat16* gate_up, const BFloat16* grad_out, int64_t rows, int64_t width,
                     BFloat16* grad_gate_up) {
  run_swiglu_backward(CALYREX_KERNELS_DISPATCH(swiglu_backward_bf16), gate_up, grad_out, rows, width,
                      grad_gate_up);
}

double sum_of_squares(const float* values, int64_t count) {
  const auto kernel = CALYREX_KERNELS_DISPATCH(sum_of_squares_f32);
  std::vector<double> partial((count + kArrayGrain - 1) / kArrayGrain);
  parallel_for(static_cast<int64_t>(partial.size()), kArrayGrain, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kArrayGrain;
      partial[block] = kernel(values + first, std::min(kArrayGrain, count - first));
    }
  });
  double sum = 0.0;
  for (const double value : partial) sum += value;
  return sum;
}

}  // namespace calyrex::kernels
#endif  // HWY_ONCE
