#include "calyrex/model/frozen_matrix.h"

#include <mutex>
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/grad_mode.h>

namespace calyrex::model {
namespace {

using Repack = at::Tensor(const at::Tensor& weight, std::optional<int64_t> rows);
using Multiply = at::Tensor(const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, std::string_view operation,
                            c10::List<std::optional<at::Scalar>> scalars,
                            std::optional<std::string_view> algorithm);

/// The library's operators on packed weights; absent in builds without oneDNN.
struct PackedOperators {
  std::optional<c10::TypedOperatorHandle<Repack>> repack;
  std::optional<c10::TypedOperatorHandle<Multiply>> multiply;

  bool present() const { return repack && multiply; }
};

const PackedOperators& packed_operators() {
  static const PackedOperators operators = [] {
    PackedOperators found;
    c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    if (const auto schema = dispatcher.findSchema({"mkldnn::_reorder_linear_weight", ""})) {
      found.repack = schema->typed<Repack>();
    }
    if (const auto schema = dispatcher.findSchema({"mkldnn::_linear_pointwise", ""})) {
      found.multiply = schema->typed<Multiply>();
    }
    return found;
  }();
  return operators;
}

// The library chooses its blocks for products of about so many rows.
constexpr int64_t kTypicalRows = 1024;

at::Tensor pack(const at::Tensor& matrix) {
  return packed_operators().repack->call(matrix.contiguous(), kTypicalRows);
}

at::Tensor multiply_packed(const at::Tensor& x, const at::Tensor& packed) {
  const at::NoGradGuard no_grad;
  return packed_operators().multiply->call(x, packed, std::nullopt, "none",
                                           c10::List<std::optional<at::Scalar>>(), "");
}

}  // namespace

struct FrozenMatrix::State {
  at::Tensor packed;  // undefined where plain is used
  at::Tensor plain;   // undefined where it is packed
  std::once_flag packed_backward_once;
  at::Tensor packed_backward;  // the transposed matrix
};

FrozenMatrix::FrozenMatrix(at::Tensor plain) : state_(std::make_shared<State>()) {
  const at::NoGradGuard no_grad;
  if (plain.is_cpu() && plain.scalar_type() == at::kBFloat16 && packed_operators().present()) {
    state_->packed = pack(plain);
  } else {
    state_->plain = std::move(plain);
  }
}

at::Tensor FrozenMatrix::multiply(const at::Tensor& x) const {
  return state_->packed.defined() ? multiply_packed(x, state_->packed) : at::linear(x, state_->plain);
}

at::Tensor FrozenMatrix::multiply_backward(const at::Tensor& grad) const {
  if (!state_->packed.defined()) return at::mm(grad, state_->plain);
  std::call_once(state_->packed_backward_once, [&] {
    const at::NoGradGuard no_grad;
    state_->packed_backward = pack(plain().t());
  });
  return multiply_packed(grad, state_->packed_backward);
}

at::Tensor FrozenMatrix::plain() const {
  return state_->packed.defined() ? state_->packed.to_dense() : state_->plain;
}

}  // namespace calyrex::model
