// Everything that depends on the device: which one, in which precision, and torch's errors as ours.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <ATen/core/Tensor.h>

#include "calyrex/base/error.h"
#include "calyrex/lm/local_model.h"

namespace calyrex::model {

/// "auto", "cpu", "cuda", "cuda:1". kUnsupported when this build or machine has no such device.
at::Device resolve_device(const std::string& name);

/// float32, or bfloat16 when asked for; auto = bfloat16 where a small product in bfloat16 agrees with float32
/// and is native to the processor, else float32.
at::ScalarType resolve_dtype(lm::Precision precision, at::Device device);

/// "float32", "bfloat16".
std::string_view dtype_text(at::ScalarType dtype);

[[noreturn]] void rethrow_torch_error(std::string_view context);

/// Runs a public entry point of model, train or infer; torch's exceptions become Error (kOutOfMemory,
/// kInternal).
template <typename Function>
decltype(auto) translate_torch_errors(std::string_view context, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    rethrow_torch_error(context);
  }
}

}  // namespace calyrex::model
