#include "calyrex/model/adapter.h"

#include <ATen/ATen.h>

#include "calyrex/model/ops.h"

namespace calyrex::model {

at::Tensor AdapterParameter::grad() const {
  const at::Tensor& whole = leaf.grad();
  return whole.defined() ? whole.slice(0, row_begin, row_end) : whole;
}

int64_t Adapter::num_parameters() const {
  int64_t total = 0;
  for (const AdapterParameter& parameter : parameters_) total += parameter.value().numel();
  return total;
}

at::Tensor Adapter::add_contribution(int64_t layer, AdapterParameter::Part part, at::Tensor hidden,
                                     const at::Tensor& rows, const at::Tensor& delta,
                                     const AdapterGroup& group) {
  double scale = group.scale;
  if (group.observer != nullptr) {
    scale *= group.observer->on_contribution(layer, part, hidden, rows, delta);
    if (scale == 0.0) return hidden;
  }
  return add_to_rows(std::move(hidden), rows, delta, scale);
}

}  // namespace calyrex::model
