// The network's operations on tensors. On the CPU each runs as one fused kernel with its own backward; on
// other devices as plain ATen ops, which are also the oracle of the tests. Without autograd some change their
// input in place.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "calyrex/model/frozen_matrix.h"

namespace calyrex::model {

/// Dtype in which attention runs: float32 on the CPU (faster there than bfloat16), else the compute dtype.
at::ScalarType attention_dtype(at::ScalarType compute_dtype, at::Device device);

/// RMSNorm (Zhang and Sennrich, 2019): x [rows, dim] float32, weight [dim] float32 -> [rows, dim] in
/// `out_dtype`.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType out_dtype);

/// x + delta, then its RMSNorm. `x` is changed in place; never under autograd.
at::Tensor add_rms_norm_(at::Tensor& x, const at::Tensor& delta, const at::Tensor& weight, double eps,
                         at::ScalarType out_dtype);

/// x [rows, in] times weight [out, in] transposed, both in the compute dtype. No gradient flows to the
/// weight.
at::Tensor frozen_linear(const at::Tensor& x, const FrozenMatrix& weight);

/// The same with a trained weight: products use `compute`, the gradient goes to the float32 `leaf` where that
/// requires one.
at::Tensor trained_linear(const at::Tensor& x, const at::Tensor& leaf, const at::Tensor& compute);

/// x + scale * delta: x [rows, dim] float32, delta of the same shape in float32 or the compute dtype. In
/// place without autograd.
at::Tensor add_scaled(at::Tensor x, const at::Tensor& delta, double scale);

/// add_scaled on some rows: x[rows[i]] += scale * delta[i]; rows are distinct. `rows` undefined = all.
at::Tensor add_to_rows(at::Tensor x, const at::Tensor& rows, const at::Tensor& delta, double scale);

/// x[rows]; rows are distinct. `rows` undefined = x itself.
at::Tensor gather_rows(const at::Tensor& x, const at::Tensor& rows);

/// silu(gate) * up of gate_up [rows, 2 * width], gate first -> [rows, width] (Shazeer, 2020).
at::Tensor swiglu(const at::Tensor& gate_up);

/// Cosines and sines of rotary embedding (Su et al., 2021), each [rows, head_dim / 2] float32.
struct RopeTable {
  at::Tensor cos;
  at::Tensor sin;

  bool defined() const { return cos.defined(); }
};
RopeTable rope_table(const at::Tensor& positions, const at::Tensor& inverse_frequencies);

/// What split_heads does to a packed projection.
struct HeadsSpec {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  double norm_eps = 1e-6;
  at::Tensor bias;    // [(num_heads + 2 * num_kv_heads) * head_dim] float32, or undefined
  at::Tensor q_norm;  // [head_dim] float32, or undefined
  at::Tensor k_norm;
};

/// q [rows, num_heads, head_dim]; k and v [rows, num_kv_heads, head_dim].
struct Heads {
  at::Tensor q, k, v;
};

/// packed [rows, (num_heads + 2 * num_kv_heads) * head_dim] (q, k, v) -> heads in `out_dtype`, with bias,
/// head norms and rotation (halves convention of Hugging Face). Gradient flows to `packed`, and to bias and
/// norms that require one.
Heads split_heads(const at::Tensor& packed, const HeadsSpec& spec, const RopeTable& rope,
                  at::ScalarType out_dtype);

/// Rotates heads [rows, heads, head_dim] by plain ATen ops; differentiable.
at::Tensor rotate_heads(const at::Tensor& heads, const RopeTable& rope);

/// RMSNorm over the last dimension by plain ATen ops, with gradient to the weight; the oracle of rms_norm.
at::Tensor rms_norm_plain(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace calyrex::model
