#include "calyrex/kernels/norm.h"

#include <vector>

#include "calyrex/kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "calyrex/kernels/norm.cc"
#include <hwy/foreach_target.h>

#include "calyrex/kernels/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calyrex::kernels::HWY_NAMESPACE {

template <typename Out>
HWY_INLINE void norm_rows(const float* x, const float* weight, float eps, int64_t rows, int64_t dim,
                          Out* out) {
  const FloatTag d;
  for (int64_t r = 0; r < rows; ++r) normalise_row(d, x + r * dim, weight, eps, dim, out + r * dim);
}

template <typename Delta, typename Out>
HWY_INLINE void add_norm_rows(float* x, const Delta* delta, const float* weight, float eps, int64_t rows,
                              int64_t dim, Out* out) {
  const FloatTag d;
  for (int64_t r = 0; r < rows; ++r) {
    float* row = x + r * dim;
    const Delta* delta_row = delta + r * dim;
    for_each_vector(d, dim, [&](int64_t at, auto extent) HWY_ATTR {
      const FloatVec sum = hn::Add(load(d, row + at, extent), load(d, delta_row + at, extent));
      store(d, sum, row + at, extent);
    });
    normalise_row(d, row, weight, eps, dim, out + r * dim);
  }
}

template <typename Grad>
HWY_INLINE void norm_backward_rows(const float* x, const float* weight, float eps, const Grad* grad_out,
                                   int64_t rows, int64_t dim, float* grad_x, float* grad_weight) {
  const FloatTag d;
  for (int64_t r = 0; r < rows; ++r) {
    normalise_row_backward</*kAccumulate=*/true>(d, x + r * dim, weight, eps, grad_out + r * dim, dim,
                                                 grad_x + r * dim, grad_weight);
  }
}

void norm_f32(const float* x, const float* weight, float eps, int64_t rows, int64_t dim, float* out) {
  norm_rows(x, weight, eps, rows, dim, out);
}
void norm_bf16(const float* x, const float* weight, float eps, int64_t rows, int64_t dim, BFloat16* out) {
  norm_rows(x, weight, eps, rows, dim, out);
}
void add_norm_f32_f32(float* x, const float* delta, const float* weight, float eps, int64_t rows, int64_t dim,
                      float* out) {
  add_norm_rows(x, delta, weight, eps, rows, dim, out);
}
void add_norm_f32_bf16(float* x, const float* delta, const float* weight, float eps, int64_t rows,
                       int64_t dim, BFloat16* out) {
  add_norm_rows(x, delta, weight, eps, rows, dim, out);
}
void add_norm_bf16_f32(float* x, const BFloat16* delta, const float* weight, float eps, int64_t rows,
                       int64_t dim, float* out) {
  add_norm_rows(x, delta, weight, eps, rows, dim, out);
}
void add_norm_bf16_bf16(float* x, const BFloat16* delta, const float* weight, float eps, int64_t rows,
                        int64_t dim, BFloat16* out) {
  add_norm_rows(x, delta, weight, eps, rows, dim, out);
}
void norm_backward_f32(const float* x, const float* weight, float eps, const float* grad_out, int64_t rows,
                       int64_t dim, float* grad_x, float* grad_weight) {
  norm_backward_rows(x, weight, eps, grad_out, rows, dim, grad_x, grad_weight);
}
void norm_backward_bf16(const float* x, const float* weight, float eps, const BFloat16* grad_out,
                        int64_t rows, int64_t dim, float* grad_x, float* grad_weight) {
  norm_backward_rows(x, weight, eps, grad_out, rows, dim, grad_x, grad_weight);
}

}  // namespace calyrex::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calyrex::kernels {
namespace {

HWY_EXPORT(norm_f32);
HWY_EXPORT(norm_bf16);
HWY_EXPORT(add_norm_f32_f32);
HWY_EXPORT(add_norm_f32_bf16);
HWY_EXPORT(add_norm_bf16_f32);
HWY_EXPORT(add_norm_bf16_bf16);
HWY_EXPORT(norm_backward_f32);
HWY_EXPORT(norm_backward_bf16);

template <typename Out, typename Kernel>
void run_norm(Kernel kernel, const float* x, const float* weight, float eps, int64_t rows, int64_t dim,
              Out* out) {
  parallel_for(rows, dim, [&](int64_t begin, int64_t end) {
    kernel(x + begin * dim, weight, eps, end - begin, dim, out + begin * dim);
  });
}

template <typename Delta, typename Out, typename Kernel>
void run_add_norm(Kernel kernel, float* x, const Delta* delta, const float* weight, float eps, int64_t rows,
                  int64_t dim, Out* out) {
  parallel_for(rows, dim, [&](int64_t begin, int64_t end) {
    kernel(x + begin * dim, delta + begin * dim, weight, eps, end - begin, dim, out + begin * dim);
  });
}

template <typename Grad, typename Kernel>
void run_backward(Kernel kernel, const float* x, const float* weight, float eps, const Grad* grad_out,
                  int64_t rows, int64_t dim, float* grad_x, float* grad_weight) {
  const RowBlocks blocks(rows);
  std::vector<float> partial(grad_weight == nullptr ? 0 : blocks.count * dim);
  parallel_for(blocks.count, blocks.size * dim, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * blocks.size;
      const int64_t count = std::min(blocks.size, rows - first);
      kernel(x + first * dim, weight, eps, grad_out + first * dim, count, dim, grad_x + first * dim,
             grad_weight == nullptr ? nullptr : partial.data() + block * dim);
    }
  });
  if (grad_weight != nullptr) add_row_blocks(partial.data(), blocks.count, dim, grad_weight);
}

}  // namespace

void rms_norm(const float* x, const float* weight, float eps, int64_t rows, int64_t dim, float* out) {
  run_norm(CALYREX_KERNELS_DISPATCH(norm_f32), x, weight, eps, rows, dim, out);
}
void rms_norm(const float* x, const float* weight, float eps, int64_t rows, int64_t dim, BFloat16* out) {
  run_norm(CALYREX_KERNELS_DISPATCH(norm_bf16), x, weight, eps, rows, dim, out);
}

void add_rms_norm(float* x, const float* delta, const float* weight, float eps, int64_t rows, int64_t dim,
                  float* out) {
  run_add_norm(CALYREX_KERNELS_DISPATCH(add_norm_f32_f32), x, delta, weight, eps, rows, dim, out);
}
void add_rms_norm(float* x, const float* delta, const float* weight, float eps, int64_t rows, int64_t dim,
                  BFloat16* out) {
  run_add_norm(CALYREX_KERNELS_DISPATCH(add_norm_f32_bf16), x, delta, weight, eps, rows, dim, out);
}
void add_rms_norm(float* x, const BFloat16* delta, const float* weight, float eps, int64_t rows, int64_t dim,
                  float* out) {
  run_add_norm(CALYREX_KERNELS_DISPATCH(add_norm_bf16_f32), x, delta, weight, eps, rows, dim, out);
}
void add_rms_norm(float* x, const BFloat16* delta, const float* weight, float eps, int64_t rows, int64_t dim,
                  BFloat16* out) {
  run_add_norm(CALYREX_KERNELS_DISPATCH(add_norm_bf16_bf16), x, delta, weight, eps, rows, dim, out);
}

void rms_norm_backward(const float* x, const float* weight, float eps, const float* grad_out, int64_t rows,
                       int64_t dim, float* grad_x, float* grad_weight) {
  run_backward(CALYREX_KERNELS_DISPATCH(norm_backward_f32), x, weight, eps, grad_out, rows, dim, grad_x,
               grad_weight);
}
void rms_norm_backward(const float* x, const float* weight, float eps, const BFloat16* grad_out, int64_t rows,
                       int64_t dim, float* grad_x, float* grad_weight) {
  run_backward(CALYREX_KERNELS_DISPATCH(norm_backward_bf16), x, weight, eps, grad_out, rows, dim, grad_x,
               grad_weight);
}

}  // namespace calyrex::kernels
#endif  // HWY_ONCE
