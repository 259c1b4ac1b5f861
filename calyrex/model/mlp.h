// The gated MLP sublayer that CAL and ParallelMLP blocks share.
#pragma once

#include <ATen/core/Tensor.h>

#include "calyrex/model/trained_tensor.h"

namespace calyrex::model {

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
