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

}  // namespace calyrex::model
