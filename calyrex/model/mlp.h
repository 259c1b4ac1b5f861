// The gated MLP sublayer that CAL and ParallelMLP blocks share.
#pragma once

#include <ATen/core/Tensor.h>

namespace calyrex::model {

/// A trained matrix or vector: the float32 leaf and its copy in the compute dtype (the same tensor where they
/// agree).
struct TrainedTensor {
  at::Tensor leaf;
  at::Tensor compute;

  bool defined() const { return leaf.defined(); }
};

/// RMSNorm + SwiGLU with zero-initialised down projection: (silu(x W_G) * (x W_U)) W_D of the normed x.
struct GatedMlp {
  TrainedTensor norm;     // [hidden_size]
  TrainedTensor gate_up;  // [2 * intermediate_size, hidden_size], gate first
  TrainedTensor down;     // [hidden_size, intermediate_size]
  double norm_eps = 1e-5;

  /// x [rows, hidden_size] float32 -> what the residual stream gains, [rows, hidden_size] in the compute
  /// dtype.
  at::Tensor forward(const at::Tensor& x) const;
};

}  // namespace calyrex::model
