// From one packed query/key/value projection to attention inputs: bias, per-head RMSNorm, rotation, and back.
#pragma once

#include <cstdint>

#include "calyrex/kernels/bfloat16.h"

namespace calyrex::kernels {

inline constexpr int64_t kMaxHeadDim = 512;

/// Heads of a packed row [q heads | k heads | v heads] * head_dim. Either count may be 0 (cross-attention
/// projects queries and keys of different tokens apart). head_dim is even and at most kMaxHeadDim.
struct HeadLayout {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t width() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
};

/// What happens to a projection on its way to attention. Null pointers leave a step out.
struct QkvTransform {
  HeadLayout heads;
  const float* bias = nullptr;    // [heads.width()]
  const float* q_norm = nullptr;  // [head_dim], RMSNorm of each query head before the rotation (Qwen3)
  const float* k_norm = nullptr;  // [head_dim]
  float norm_eps = 1e-6f;
  const float* cos = nullptr;  // [rows, head_dim / 2]; both null: no rotation
  const float* sin = nullptr;  // [rows, head_dim / 2]
};

/// Splits qkv into q, k, v; float32 inside, rounded once. The rotation is Hugging Face's "rotate half":
/// element i is paired with i + head_dim / 2. In and Out are float or BFloat16.
template <typename In, typename Out>
struct QkvRopeArgs {
  QkvTransform transform;
  int64_t rows = 0;
  const In* qkv = nullptr;  // [rows, heads.width()]
  Out* q = nullptr;         // [rows, num_heads, head_dim]
  Out* k = nullptr;         // [rows, num_kv_heads, head_dim]
  Out* v = nullptr;         // [rows, num_kv_heads, head_dim]
};
void qkv_rope(const QkvRopeArgs<float, float>& args);
void qkv_rope(const QkvRopeArgs<float, BFloat16>& args);
void qkv_rope(const QkvRopeArgs<BFloat16, float>& args);
void qkv_rope(const QkvRopeArgs<BFloat16, BFloat16>& args);

/// Gradient of qkv_rope(): Grad is the type of the attention's gradients, Out that of the projection's. The
/// sums over rows (norm and bias gradients) have the same bits for any number of threads.
template <typename Grad, typename Out>
struct QkvRopeBackwardArgs {
  QkvTransform transform;
  int64_t rows = 0;
  const Grad* grad_q = nullptr;  // [rows, num_heads, head_dim]
  const Grad* grad_k = nullptr;  // [rows, num_kv_heads, head_dim]
  const Grad* grad_v = nullptr;  // [rows, num_kv_heads, head_dim]
  const Out* qkv = nullptr;      // [rows, heads.width()], the forward's input; read only with a q or k norm
  Out* grad_qkv = nullptr;       // [rows, heads.width()], written
  float* grad_bias = nullptr;    // [heads.width()] or null, added to
  float* grad_q_norm = nullptr;  // [head_dim] or null, added to
  float* grad_k_norm = nullptr;  // [head_dim] or null, added to
};
void qkv_rope_backward(const QkvRopeBackwardArgs<float, float>& args);
void qkv_rope_backward(const QkvRopeBackwardArgs<float, BFloat16>& args);
void qkv_rope_backward(const QkvRopeBackwardArgs<BFloat16, float>& args);
void qkv_rope_backward(const QkvRopeBackwardArgs<BFloat16, BFloat16>& args);

}  // namespace calyrex::kernels
