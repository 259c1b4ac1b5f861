// From CPU tensors to the raw pointers that kernels take.
#pragma once

#include <type_traits>

#include <ATen/core/Tensor.h>

#include "calyrex/base/error.h"
#include "calyrex/kernels/bfloat16.h"

namespace calyrex::model {

/// Values of a contiguous tensor of that type: float, or kernels::BFloat16 (its storage).
template <typename Value>
const Value* const_values(const at::Tensor& tensor) {
  CALYREX_CHECK(tensor.is_contiguous(), "kernels take contiguous tensors");
  CALYREX_CHECK(tensor.scalar_type() == (std::is_same_v<Value, float> ? at::kFloat : at::kBFloat16));
  return static_cast<const Value*>(tensor.const_data_ptr());
}

template <typename Value>
Value* mutable_values(const at::Tensor& tensor) {
  return const_cast<Value*>(const_values<Value>(tensor));
}

template <typename Pointer>
using PointedTo = std::remove_cv_t<std::remove_pointer_t<Pointer>>;

/// Calls `function(Value*)` with the type that the tensor has.
template <typename Function>
void visit_values(const at::Tensor& tensor, const Function& function) {
  if (tensor.scalar_type() == at::kBFloat16) {
    function(mutable_values<kernels::BFloat16>(tensor));
  } else {
    function(mutable_values<float>(tensor));
  }
}

}  // namespace calyrex::model
