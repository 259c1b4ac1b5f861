// A weight matrix that never changes, in the layout that products read fastest.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

namespace calyrex::model {

/// [out, in] in the compute dtype. bfloat16 on the CPU is repacked into the library's blocks, once: a plain
/// matrix would be repacked by every product. A cheap handle; copies share the weights. Thread-safe.
class FrozenMatrix {
 public:
  enum class Plain { kOnDemand, kKept };

  FrozenMatrix() = default;
  /// kOnDemand gives up the row-major copy where there is a packed one.
  explicit FrozenMatrix(at::Tensor plain, Plain keep = Plain::kOnDemand);

  /// x [rows, in] -> x times the transposed matrix, [rows, out]; no gradient.
  at::Tensor multiply(const at::Tensor& x) const;
  /// Row-major; unpacked when first asked for (backward passes) and kept from then on.
  const at::Tensor& plain() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace calyrex::model
