#include "calyrex/model/frozen_matrix.h"

#include <mutex>
#include <optional>

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

}  // namespace

struct FrozenMatrix::State {
  at::Tensor packed;  // undefined where plain is used
  std::once_flag unpacked;
  at::Tensor plain;
};

FrozenMatrix::FrozenMatrix(at::Tensor plain, Plain keep) : state_(std::make_shared<State>()) {
  const at::NoGradGuard no_grad;
  if (plain.is_cpu() && plain.scalar_type() == at::kBFloat16 && packed_operators().present()) {
    state_->packed = packed_operators().repack->call(plain.contiguous(), kTypicalRows);
  }
  if (!state_->packed.defined() || keep == Plain::kKept) state_->plain = std::move(plain);
}

at::Tensor FrozenMatrix::multiply(const at::Tensor& x) const {
  if (!state_->packed.defined()) return at::linear(x, state_->plain);
  const at::NoGradGuard no_grad;
  return packed_operators().multiply->call(x, state_->packed, std::nullopt, "none",
                                           c10::List<std::optional<at::Scalar>>(), "");
}

const at::Tensor& FrozenMatrix::plain() const {
  std::call_once(state_->unpacked, [&] {
    if (!state_->plain.defined()) state_->plain = state_->packed.to_dense();
  });
  return state_->plain;
}

}  // namespace calyrex::model
