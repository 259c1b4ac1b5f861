// A weight matrix that never changes, in the layouts that products read fastest.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

namespace calyrex::model {

/// [out, in] in the compute dtype. bfloat16 on the CPU is repacked into the library's blocks, once for each
/// direction of products: a plain matrix would be repacked by every product. A cheap handle; copies share the
/// weights. Thread-safe.
class FrozenMatrix {
 public:
  FrozenMatrix() = default;
  explicit FrozenMatrix(at::Tensor plain);

  /// x [rows, in] -> x times the transposed matrix, [rows, out]; no gradient.
  at::Tensor multiply(const at::Tensor& x) const;
  /// The gradient of multiply() by x: grad [rows, out] -> grad times the matrix, [rows, in]; no gradient
  /// itself. The first call packs the matrix for this direction.
  at::Tensor multiply_backward(const at::Tensor& grad) const;
  /// Row-major; unpacked anew where it is packed.
  at::Tensor plain() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace calyrex::model
