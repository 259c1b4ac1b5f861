#include "calyrex/model/device.h"

#include <cstdlib>
#include <new>

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/util/Exception.h>

namespace calyrex::model {
namespace {

/// Whether bfloat16 products are native here and right: a product with float32 sums must agree to bfloat16's
/// rounding.
bool bfloat16_works(at::Device device) {
  if (device.is_cpu() && at::get_cpu_capability() != "AVX512") return false;
  constexpr int64_t kRows = 48, kInner = 256, kColumns = 64;
  const at::Tensor left = at::linspace(-1.0, 1.0, kRows * kInner).view({kRows, kInner}).sin();
  const at::Tensor right = at::linspace(0.0, 3.0, kColumns * kInner).view({kColumns, kInner}).cos();
  const at::Tensor left_half = left.to(device, at::kBFloat16);
  const at::Tensor right_half = right.to(device, at::kBFloat16);
  const at::Tensor product = at::linear(left_half, right_half).to(at::kCPU, at::kFloat);
  const at::Tensor expected =
      at::linear(left_half.to(at::kCPU, at::kFloat), right_half.to(at::kCPU, at::kFloat));
  const double error = (product - expected).abs().max().item<double>();
  return error <= expected.abs().max().item<double>() / 128.0;  // bfloat16 keeps 8 bits
}

/// The process's number on its host, as torchrun sets it: each takes a device of its own.
at::DeviceIndex local_rank() {
  const char* text = std::getenv("LOCAL_RANK");
  const int devices = static_cast<int>(at::getNumGPUs());
  const int rank = text == nullptr ? 0 : std::atoi(text);
  return static_cast<at::DeviceIndex>(rank < 0 || devices == 0 ? 0 : rank % devices);
}

}  // namespace

at::Device resolve_device(const std::string& name) {
  const bool has_cuda = at::hasCUDA();
  if (name == "auto") return has_cuda ? at::Device(at::kCUDA, local_rank()) : at::Device(at::kCPU);
  if (name != "cpu" && name != "cuda" && name.rfind("cuda:", 0) != 0) {
    fail(ErrorCode::kInvalidArgument, "device '{}' is not known; use auto, cpu, cuda or cuda:N", name);
  }
  if (name != "cpu" && !has_cuda) {
    fail(ErrorCode::kUnsupported,
         "device '{}': this libtorch or this machine has no CUDA; build with CALYREX_TORCH_ROOT set to a "
         "CUDA torch",
         name);
  }
  try {
    return at::Device(name);
  } catch (const c10::Error&) {
    fail(ErrorCode::kInvalidArgument, "device '{}' is not known; use auto, cpu, cuda or cuda:N", name);
  }
}

at::ScalarType resolve_dtype(lm::Precision precision, at::Device device) {
  switch (precision) {
    case lm::Precision::kFloat32:
      return at::kFloat;
    case lm::Precision::kBFloat16:
      return at::kBFloat16;
    case lm::Precision::kAuto:
      return bfloat16_works(device) ? at::kBFloat16 : at::kFloat;
  }
  return at::kFloat;
}

std::string_view dtype_text(at::ScalarType dtype) { return dtype == at::kBFloat16 ? "bfloat16" : "float32"; }

void rethrow_torch_error(std::string_view context) {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    fail(ErrorCode::kOutOfMemory, "{}: {}", context, error.msg());
  } catch (const c10::Error& error) {
    const std::string& message = error.msg();
    const bool memory = message.find("not enough memory") != std::string::npos;
    fail(memory ? ErrorCode::kOutOfMemory : ErrorCode::kInternal, "{}: {}", context, message);
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::kOutOfMemory, "{}: out of memory", context);
  } catch (const std::exception& error) {
    fail(ErrorCode::kInternal, "{}: {}", context, error.what());
  }
}

}  // namespace calyrex::model
