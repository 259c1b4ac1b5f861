#include "calyrex/train/optimizer.h"

#include <cmath>
#include <cstring>

#include <ATen/ATen.h>

#include "calyrex/base/error.h"
#include "calyrex/kernels/adamw.h"
#include "calyrex/kernels/elementwise.h"

namespace calyrex::train {
namespace {

using model::AdapterParameter;

/// In float64, so that the sum neither overflows nor depends much on the order.
double sum_of_squares(const at::Tensor& tensor) {
  if (tensor.is_cpu() && tensor.is_contiguous()) {
    return kernels::sum_of_squares(tensor.const_data_ptr<float>(), tensor.numel());
  }
  return at::sum(at::square(tensor.to(at::kDouble))).item<double>();
}

at::Tensor rows_of(const at::Tensor& whole, const AdapterParameter& parameter) {
  return whole.slice(0, parameter.row_begin, parameter.row_end);
}

/// The same step by plain ops, for devices without a kernel of ours.
void update_by_ops(const kernels::AdamWArgs& args, at::Tensor param, const at::Tensor& grad, at::Tensor m,
                   at::Tensor v) {
  const at::Tensor scaled = grad * args.grad_scale;
  const double correction1 = 1.0 - std::pow(args.beta1, static_cast<double>(args.step));
  const double correction2 = 1.0 - std::pow(args.beta2, static_cast<double>(args.step));
  param.mul_(1.0 - args.lr * args.weight_decay);
  m.lerp_(scaled, 1.0 - args.beta1);
  v.mul_(args.beta2).addcmul_(scaled, scaled, 1.0 - args.beta2);
  param.addcdiv_(m, (v.sqrt() / std::sqrt(correction2)).add_(args.eps), -args.lr / correction1);
}

}  // namespace

GradientNorms gradient_norms(const model::Adapter& adapter) {
  const at::NoGradGuard no_grad;
  GradientNorms norms;
  double total = 0.0;
  for (const AdapterParameter& parameter : adapter.parameters()) {
    double& block = norms.blocks[parameter.layer];
    const at::Tensor grad = parameter.grad();
    if (!grad.defined()) continue;
    const double squares = sum_of_squares(grad);
    if (!std::isfinite(squares) && norms.non_finite.empty()) norms.non_finite = parameter.name;
    block += squares;
    total += squares;
  }
  for (auto& [layer, squares] : norms.blocks) squares = std::sqrt(squares);
  norms.total = std::sqrt(total);
  return norms;
}

Optimizer::Optimizer(std::shared_ptr<model::Adapter> adapter, const TrainSettings& settings)
    : adapter_(std::move(adapter)), settings_(settings) {
  const auto& parameters = adapter_->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const AdapterParameter& parameter = parameters[i];
    Slot* slot = nullptr;
    for (Slot& known : slots_) {
      if (known.leaf.is_same(parameter.leaf)) slot = &known;
    }
    if (slot == nullptr) {
      const bool attention = parameter.part == AdapterParameter::Part::kAttention;
      const std::optional<double>& own = attention ? settings.learning_rate_attn : settings.learning_rate_mlp;
      slots_.push_back({.leaf = parameter.leaf,
                        .compute = parameter.compute,
                        .m = at::zeros_like(parameter.leaf.detach()),
                        .v = at::zeros_like(parameter.leaf.detach()),
                        .learning_rate = own.value_or(settings.learning_rate),
                        .weight_decay = parameter.leaf.dim() == 2 ? settings.weight_decay : 0.0,
                        .steps = 0,
                        .parameters = {}});
      slot = &slots_.back();
    }
    slot->parameters.push_back(i);
  }
}

void Optimizer::update(Slot& slot, double learning_rate, double grad_scale) {
  const at::Tensor grad = slot.leaf.grad().contiguous();
  at::Tensor leaf = slot.leaf.detach();
  kernels::AdamWArgs args = {.count = leaf.numel(),
                             .step = ++slot.steps,
                             .lr = learning_rate,
                             .beta1 = settings_.betas[0],
                             .beta2 = settings_.betas[1],
                             .eps = settings_.eps,
                             .weight_decay = slot.weight_decay,
                             .grad_scale = grad_scale};
  if (!leaf.is_cpu()) {
    update_by_ops(args, leaf, grad, slot.m, slot.v);
    if (!slot.compute.is_alias_of(leaf)) slot.compute.copy_(leaf);
    return;
  }
  args.param = leaf.mutable_data_ptr<float>();
  args.grad = grad.const_data_ptr<float>();
  args.m = slot.m.mutable_data_ptr<float>();
  args.v = slot.v.mutable_data_ptr<float>();
  if (slot.compute.scalar_type() == at::kBFloat16) {
    args.param_bf16 = reinterpret_cast<kernels::BFloat16*>(slot.compute.mutable_data_ptr());
  }
  kernels::adamw(args);
}

void Optimizer::step(double lr_factor, double grad_scale) {
  const at::NoGradGuard no_grad;
  for (Slot& slot : slots_) {
    if (slot.leaf.grad().defined()) update(slot, slot.learning_rate * lr_factor, grad_scale);
  }
  clear_gradients();
}

void Optimizer::clear_gradients() {
  for (Slot& slot : slots_) slot.leaf.mutable_grad().reset();
}

model::AdapterTensors Optimizer::export_moments() const {
  model::AdapterTensors result;
  for (const Slot& slot : slots_) {
    for (const size_t index : slot.parameters) {
      const AdapterParameter& parameter = adapter_->parameters()[index];
      for (const auto& [prefix, moment] : {std::pair{"m.", &slot.m}, {"v.", &slot.v}}) {
        const at::Tensor rows = rows_of(*moment, parameter).to(at::kCPU).contiguous();
        result.storage.push_back(rows);
        result.tensors.push_back(
            {.name = prefix + parameter.name,
             .dtype = weights::DType::kF32,
             .shape = rows.sizes().vec(),
             .data = {static_cast<const std::byte*>(rows.const_data_ptr()), rows.nbytes()}});
      }
    }
  }
  return result;
}

Json Optimizer::step_counts() const {
  Json counts = Json::object();
  for (const Slot& slot : slots_) {
    for (const size_t index : slot.parameters) counts[adapter_->parameters()[index].name] = slot.steps;
  }
  return counts;
}

void Optimizer::restore(const weights::SafetensorsFile& moments, const Json& step_counts) {
  const at::NoGradGuard no_grad;
  for (Slot& slot : slots_) {
    for (const size_t index : slot.parameters) {
      const AdapterParameter& parameter = adapter_->parameters()[index];
      for (const auto& [prefix, moment] : {std::pair{"m.", &slot.m}, {"v.", &slot.v}}) {
        const at::Tensor rows = rows_of(*moment, parameter);
        const weights::TensorView* stored = moments.find(prefix + parameter.name);
        if (stored == nullptr || stored->dtype != weights::DType::kF32 ||
            stored->shape != rows.sizes().vec()) {
          fail(ErrorCode::kCorruptData, "{}: tensor {}{} is missing or has another shape",
               moments.path().string(), prefix, parameter.name);
        }
        at::Tensor values = at::empty(rows.sizes(), at::kFloat);
        std::memcpy(values.mutable_data_ptr(), stored->data.data(), stored->data.size());
        rows.copy_(values);
      }
      const auto count = step_counts.find(parameter.name);
      if (count == step_counts.end() || !count->is_number_integer()) {
        fail(ErrorCode::kCorruptData, "{}: no step count of {}", moments.path().string(), parameter.name);
      }
      slot.steps = count->get<int64_t>();
    }
  }
}

}  // namespace calyrex::train
