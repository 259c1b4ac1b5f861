#include "calyrex/model/adapter.h"

#include <ATen/ATen.h>

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

void Adapter::refresh_compute() {
  const at::NoGradGuard no_grad;
  for (const AdapterParameter& parameter : parameters_) {
    if (!parameter.compute.is_alias_of(parameter.leaf)) parameter.compute_value().copy_(parameter.value());
  }
}

}  // namespace calyrex::model
