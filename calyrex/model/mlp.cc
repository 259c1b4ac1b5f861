#include "calyrex/model/mlp.h"

#include "calyrex/model/ops.h"

namespace calyrex::model {

at::Tensor GatedMlp::forward(const at::Tensor& x) const {
  const at::Tensor normed = rms_norm(x, norm.leaf, norm_eps, gate_up.compute.scalar_type());
  const at::Tensor activated = swiglu(trained_linear(normed, gate_up.leaf, gate_up.compute));
  return trained_linear(activated, down.leaf, down.compute);
}

}  // namespace calyrex::model
