#include "calyrex/kernels/qkv_rope.h"

#include <vector>

#include "calyrex/base/error.h"
#include "calyrex/kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "calyrex/kernels/qkv_rope.cc"
#include <hwy/foreach_target.h>

#include "calyrex/kernels/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calyrex::kernels::HWY_NAMESPACE {

/// head = in + bias (bias may be null).
template <typename In>
HWY_INLINE void load_head(FloatTag d, const In* in, const float* bias, int64_t dim, float* head) {
  for_each_vector(d, dim, [&](int64_t at, auto extent) HWY_ATTR {
    FloatVec v = load(d, in + at, extent);
    if (bias != nullptr) v = hn::Add(v, load(d, bias + at, extent));
    store(d, v, head + at, extent);
  });
}

/// Rotates by the angles whose cosine and sine * direction are given (direction -1 undoes it); out may be in.
template <typename In, typename Out>
HWY_INLINE void rotate_head(FloatTag d, const In* in, const float* cos, const float* sin, float direction,
                            int64_t dim, Out* out) {
  const int64_t half = dim / 2;
  const FloatVec sign = hn::Set(d, direction);
  for_each_vector(d, half, [&](int64_t at, auto extent) HWY_ATTR {
    const FloatVec a = load(d, in + at, extent);
    const FloatVec b = load(d, in + half + at, extent);
    const FloatVec c = load(d, cos + at, extent);
    const FloatVec s = hn::Mul(load(d, sin + at, extent), sign);
    store(d, hn::NegMulAdd(b, s, hn::Mul(a, c)), out + at, extent);
    store(d, hn::MulAdd(a, s, hn::Mul(b, c)), out + half + at, extent);
  });
}

template <typename In, typename Out>
HWY_INLINE void copy_head(FloatTag d, const In* in, int64_t dim, Out* out) {
  for_each_vector(d, dim, [&](int64_t at, auto extent) HWY_ATTR {
    store(d, load(d, in + at, extent), out + at, extent);
  });
}

/// in rotated by direction * angle, or copied when there is no rotation.
template <typename In, typename Out>
HWY_INLINE void rotate_or_copy(FloatTag d, const In* in, const float* cos, const float* sin, float direction,
                               int64_t dim, Out* out) {
  if (cos == nullptr) {
    copy_head(d, in, dim, out);
  } else {
    rotate_head(d, in, cos, sin, direction, dim, out);
  }
}

/// The steps of one kind of head (query, key or value) in one row; null where a step is left out.
struct HeadSteps {
  const float* bias;
  const float* norm;
  float eps;
  const float* cos;
  const float* sin;
};

template <typename In, typename Out>
HWY_INLINE void transform_heads(FloatTag d, const In* in, int64_t count, int64_t dim, HeadSteps steps,
                                Out* out) {
  HWY_ALIGN float head[kMaxHeadDim];
  for (int64_t h = 0; h < count; ++h, in += dim, out += dim) {
    if (steps.bias == nullptr && steps.norm == nullptr) {
      rotate_or_copy(d, in, steps.cos, steps.sin, 1.0f, dim, out);
      continue;
    }
    load_head(d, in, steps.bias == nullptr ? nullptr : steps.bias + h * dim, dim, head);
    if (steps.norm != nullptr) normalise_row(d, head, steps.norm, steps.eps, dim, head);
    rotate_or_copy(d, head, steps.cos, steps.sin, 1.0f, dim, out);
  }
}

/// Gradient of transform_heads(). `in` is read only with a norm; grad_norm [dim] may be null.
template <typename Grad, typename Out>
HWY_INLINE void transform_heads_backward(FloatTag d, const Grad* grad, const Out* in, int64_t count,
                                         int64_t dim, HeadSteps steps, Out* grad_in, float* grad_norm) {
  HWY_ALIGN float head[kMaxHeadDim];
  HWY_ALIGN float grad_head[kMaxHeadDim];
  for (int64_t h = 0; h < count; ++h, grad += dim, grad_in += dim) {
    if (steps.norm == nullptr) {
      rotate_or_copy(d, grad, steps.cos, steps.sin, -1.0f, dim, grad_in);
      continue;
    }
    rotate_or_copy(d, grad, steps.cos, steps.sin, -1.0f, dim, grad_head);
    load_head(d, in + h * dim, steps.bias == nullptr ? nullptr : steps.bias + h * dim, dim, head);
    normalise_row_backward</*kAccumulate=*/false>(d, head, steps.norm, steps.eps, grad_head, dim, grad_in,
                                                  grad_norm);
  }
}

/// Offsets and steps of the three kinds of heads in row r.
struct RowSteps {
  RowSteps(const QkvTransform& t, int64_t r) {
    const auto [heads, kv_heads, dim] = t.heads;
    k_at = heads * dim;
    v_at = k_at + kv_heads * dim;
    const float* cos = t.cos == nullptr ? nullptr : t.cos + r * (dim / 2);
    const float* sin = t.sin == nullptr ? nullptr : t.sin + r * (dim / 2);
    q = {t.bias, t.q_norm, t.norm_eps, cos, sin};
    k = {t.bias == nullptr ? nullptr : t.bias + k_at, t.k_norm, t.norm_eps, cos, sin};
    v = {t.bias == nullptr ? nullptr : t.bias + v_at, nullptr, t.norm_eps, nullptr, nullptr};
  }
  int64_t k_at, v_at;
  HeadSteps q, k, v;
};

template <typename In, typename Out>
HWY_INLINE void forward_rows(const QkvRopeArgs<In, Out>& args, int64_t begin, int64_t end) {
  const FloatTag d;
  const auto [heads, kv_heads, dim] = args.transform.heads;
  for (int64_t r = begin; r < end; ++r) {
    const RowSteps row(args.transform, r);
    const In* in = args.qkv + r * args.transform.heads.width();
    const int64_t kv_out = r * kv_heads * dim;
    transform_heads(d, in, heads, dim, row.q, args.q + r * heads * dim);
    transform_heads(d, in + row.k_at, kv_heads, dim, row.k, args.k + kv_out);
    transform_heads(d, in + row.v_at, kv_heads, dim, row.v, args.v + kv_out);
  }
}

template <typename Grad, typename Out>
HWY_INLINE void backward_rows(const QkvRopeBackwardArgs<Grad, Out>& args, int64_t begin, int64_t end) {
  const FloatTag d;
  const auto [heads, kv_heads, dim] = args.transform.heads;
  const int64_t width = args.transform.heads.width();
  for (int64_t r = begin; r < end; ++r) {
    const RowSteps row(args.transform, r);
    const Out* q_in = args.qkv == nullptr ? nullptr : args.qkv + r * width;
    const Out* k_in = args.qkv == nullptr ? nullptr : q_in + row.k_at;
    Out* out = args.grad_qkv + r * width;
    const int64_t kv_row = r * kv_heads * dim;
    transform_heads_backward(d, args.grad_q + r * heads * dim, q_in, heads, dim, row.q, out,
                             args.grad_q_norm);
    transform_heads_backward(d, args.grad_k + kv_row, k_in, kv_heads, dim, row.k, out + row.k_at,
                             args.grad_k_norm);
    copy_head(d, args.grad_v + kv_row, kv_heads * dim, out + row.v_at);
    if (args.grad_bias == nullptr) continue;
    for_each_vector(d, width, [&](int64_t at, auto extent) HWY_ATTR {
      const FloatVec sum = hn::Add(load(d, args.grad_bias + at, extent), load(d, out + at, extent));
      store(d, sum, args.grad_bias + at, extent);
    });
  }
}

void forward_f32_f32(const QkvRopeArgs<float, float>& args, int64_t begin, int64_t end) {
  forward_rows(args, begin, end);
}
void forward_f32_bf16(const QkvRopeArgs<float, BFloat16>& args, int64_t begin, int64_t end) {
  forward_rows(args, begin, end);
}
void forward_bf16_f32(const QkvRopeArgs<BFloat16, float>& args, int64_t begin, int64_t end) {
  forward_rows(args, begin, end);
}
void forward_bf16_bf16(const QkvRopeArgs<BFloat16, BFloat16>& args, int64_t begin, int64_t end) {
  forward_rows(args, begin, end);
}
void backward_f32_f32(const QkvRopeBackwardArgs<float, float>& args, int64_t begin, int64_t end) {
  backward_rows(args, begin, end);
}
void backward_f32_bf16(const QkvRopeBackwardArgs<float, BFloat16>& args, int64_t begin, int64_t end) {
  backward_rows(args, begin, end);
}
void backward_bf16_f32(const QkvRopeBackwardArgs<BFloat16, float>& args, int64_t begin, int64_t end) {
  backward_rows(args, begin, end);
}
void backward_bf16_bf16(const QkvRopeBackwardArgs<BFloat16, BFloat16>& args, int64_t begin, int64_t end) {
  backward_rows(args, begin, end);
}

}  // namespace calyrex::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calyrex::kernels {
namespace {

HWY_EXPORT(forward_f32_f32);
HWY_EXPORT(forward_f32_bf16);
HWY_EXPORT(forward_bf16_f32);
HWY_EXPORT(forward_bf16_bf16);
HWY_EXPORT(backward_f32_f32);
HWY_EXPORT(backward_f32_bf16);
HWY_EXPORT(backward_bf16_f32);
HWY_EXPORT(backward_bf16_bf16);

void check_transform(const QkvTransform& transform) {
  const int64_t dim = transform.heads.head_dim;
  CALYREX_CHECK(dim > 0 && dim % 2 == 0 && dim <= kMaxHeadDim, "head_dim {}", dim);
  CALYREX_CHECK((transform.cos == nullptr) == (transform.sin == nullptr));
}

template <typename Args, typename Kernel>
void run_forward(Kernel kernel, const Args& args) {
  check_transform(args.transform);
  parallel_for(args.rows, args.transform.heads.width(),
               [&](int64_t begin, int64_t end) { kernel(args, begin, end); });
}

/// Adds the sums of the blocks to `total`, unless that is null.
void add_partial(const std::vector<float>& partial, const RowBlocks& blocks, int64_t columns, float* total) {
  if (total != nullptr) add_row_blocks(partial.data(), blocks.count, columns, total);
}

template <typename Args, typename Kernel>
void run_backward(Kernel kernel, const Args& args) {
  check_transform(args.transform);
  CALYREX_CHECK(args.qkv != nullptr ||
                (args.transform.q_norm == nullptr && args.transform.k_norm == nullptr));
  const RowBlocks blocks(args.rows);
  const int64_t width = args.transform.heads.width();
  const int64_t dim = args.transform.heads.head_dim;
  std::vector<float> bias(args.grad_bias == nullptr ? 0 : blocks.count * width);
  std::vector<float> q_norm(args.grad_q_norm == nullptr ? 0 : blocks.count * dim);
  std::vector<float> k_norm(args.grad_k_norm == nullptr ? 0 : blocks.count * dim);
  parallel_for(blocks.count, blocks.size * width, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      Args part = args;
      if (!bias.empty()) part.grad_bias = bias.data() + block * width;
      if (!q_norm.empty()) part.grad_q_norm = q_norm.data() + block * dim;
      if (!k_norm.empty()) part.grad_k_norm = k_norm.data() + block * dim;
      kernel(part, block * blocks.size, std::min((block + 1) * blocks.size, args.rows));
    }
  });
  add_partial(bias, blocks, width, args.grad_bias);
  add_partial(q_norm, blocks, dim, args.grad_q_norm);
  add_partial(k_norm, blocks, dim, args.grad_k_norm);
}

}  // namespace

void qkv_rope(const QkvRopeArgs<float, float>& args) {
  run_forward(CALYREX_KERNELS_DISPATCH(forward_f32_f32), args);
}
void qkv_rope(const QkvRopeArgs<float, BFloat16>& args) {
  run_forward(CALYREX_KERNELS_DISPATCH(forward_f32_bf16), args);
}
void qkv_rope(const QkvRopeArgs<BFloat16, float>& args) {
  run_forward(CALYREX_KERNELS_DISPATCH(forward_bf16_f32), args);
}
void qkv_rope(const QkvRopeArgs<BFloat16, BFloat16>& args) {
  run_forward(CALYREX_KERNELS_DISPATCH(forward_bf16_bf16), args);
}
void qkv_rope_backward(const QkvRopeBackwardArgs<float, float>& args) {
  run_backward(CALYREX_KERNELS_DISPATCH(backward_f32_f32), args);
}
void qkv_rope_backward(const QkvRopeBackwardArgs<float, BFloat16>& args) {
  run_backward(CALYREX_KERNELS_DISPATCH(backward_f32_bf16), args);
}
void qkv_rope_backward(const QkvRopeBackwardArgs<BFloat16, float>& args) {
  run_backward(CALYREX_KERNELS_DISPATCH(backward_bf16_f32), args);
}
void qkv_rope_backward(const QkvRopeBackwardArgs<BFloat16, BFloat16>& args) {
  run_backward(CALYREX_KERNELS_DISPATCH(backward_bf16_bf16), args);
}

}  // namespace calyrex::kernels
#endif  // HWY_ONCE
