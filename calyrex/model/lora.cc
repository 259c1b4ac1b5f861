#include "calyrex/model/lora.h"

#include <map>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "calyrex/base/error.h"
#include "calyrex/model/held.h"
#include "calyrex/model/ops.h"

namespace calyrex::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using Part = LowRankUpdate::Part;

at::Tensor columns(const at::Tensor& product, const Part& part) {
  return product.narrow(1, part.out_begin, part.out());
}

at::Tensor rank_columns(const at::Tensor& low, const Part& part) {
  return low.narrow(1, part.rank_begin, part.rank());
}

void add_parts(at::Tensor& y, const at::Tensor& low, const LowRankUpdate& update, double strength) {
  for (const Part& part : update.parts) {
    at::Tensor target = columns(y, part);
    target.addmm_(rank_columns(low, part), part.b.compute.t(), 1, strength * part.scale);
  }
}

class LowRankLinear : public Function<LowRankLinear> {
 public:
  /// `b` lists the leaves of the parts, for the gradients.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& a,
                            const at::TensorList& b, const FrozenMatrix& weight, const LowRankUpdate* update,
                            double strength) {
    const at::Tensor low = at::linear(x, update->a.compute);
    at::Tensor y = weight.multiply(x);
    add_parts(y, low, *update, strength);
    context->save_for_backward({x, low});
    context->saved_data["weight"] = hold(weight);
    context->saved_data["x_grad"] = x.requires_grad();
    context->saved_data["update"] = reinterpret_cast<int64_t>(update);  // the adapter outlives the graph
    context->saved_data["strength"] = strength;
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &low = saved[1], &grad = grads[0];
    const FrozenMatrix weight = held<FrozenMatrix>(context->saved_data["weight"]);
    const auto& update = *reinterpret_cast<const LowRankUpdate*>(context->saved_data["update"].toInt());
    const double strength = context->saved_data["strength"].toDouble();
    at::Tensor grad_low = at::empty_like(low);
    variable_list grad_b;
    for (const Part& part : update.parts) {
      const at::Tensor out = columns(grad, part);
      const double factor = strength * part.scale;
      rank_columns(grad_low, part).copy_(at::mm(out, part.b.compute).mul_(factor));
      grad_b.push_back(at::mm(out.t(), rank_columns(low, part)).to(at::kFloat).mul_(factor));
    }
    variable_list result = {at::Tensor(), at::mm(grad_low.t(), x).to(at::kFloat)};
    if (context->saved_data["x_grad"].toBool()) {
      result[0] = weight.multiply_backward(grad).addmm_(grad_low, update.a.compute);
    }
    result.insert(result.end(), grad_b.begin(), grad_b.end());
    result.resize(result.size() + 3);  // weight, update, strength
    return result;
  }
};

size_t index_of(int64_t layer, LayerLinear linear) {
  return static_cast<size_t>(layer) * kNumLayerLinears + static_cast<size_t>(linear);
}

std::string tensor_name(const weights::LoraModule& module, char matrix) {
  return fmt::format("base_model.model.{}.lora_{}.weight", module.name, matrix);
}

/// The joined linear that a module is part of.
LayerLinear linear_of(const weights::LoraModule& module) {
  const std::string projection = module.name.substr(module.name.rfind('.') + 1);
  if (projection == "o_proj") return LayerLinear::kO;
  if (projection == "gate_proj" || projection == "up_proj") return LayerLinear::kGateUp;
  return projection == "down_proj" ? LayerLinear::kDown : LayerLinear::kQkv;
}

using Modules = std::vector<const weights::LoraModule*>;

LowRankUpdate build_update(const Modules& modules, AdapterParameter::Part kind, ParameterBuilder& builder) {
  LowRankUpdate update;
  std::vector<std::string> names;
  int64_t rank = 0;
  for (const weights::LoraModule* module : modules) {
    names.push_back(tensor_name(*module, 'A'));
    update.parts.push_back({.out_begin = module->out_begin,
                            .rank_begin = rank,
                            .scale = module->scale,
                            .b = builder.join(module->layer, {tensor_name(*module, 'B')}, kind)});
    rank += module->rank;
  }
  update.a = builder.join(modules.front()->layer, names, kind);
  return update;
}

}  // namespace

at::Tensor low_rank_linear(const at::Tensor& x, const FrozenMatrix& weight, const LowRankUpdate& update,
                           double strength) {
  variable_list b;
  for (const Part& part : update.parts) b.push_back(part.b.leaf);
  return LowRankLinear::apply(x, update.a.leaf, at::TensorList(b), weight, &update, strength);
}

void add_low_rank_(at::Tensor& y, const at::Tensor& x, const at::Tensor& rows, const LowRankUpdate& update,
                   double strength) {
  CALYREX_CHECK(!at::GradMode::is_enabled());
  const at::Tensor low = at::linear(gather_rows(x, rows), update.a.compute);
  if (!rows.defined()) {
    add_parts(y, low, update, strength);
    return;
  }
  at::Tensor chosen = gather_rows(y, rows);
  add_parts(chosen, low, update, strength);
  y.index_copy_(0, rows, chosen);
}

LoraAdapter::LoraAdapter(weights::AdapterConfig config, ParameterBuilder& builder)
    : Adapter(std::move(config)) {
  std::map<std::pair<int64_t, LayerLinear>, Modules> joined;
  for (const weights::LoraModule& module : config_.lora_modules) {
    joined[{module.layer, linear_of(module)}].push_back(&module);
  }
  updates_.resize(static_cast<size_t>(config_.placement.back() + 1) * kNumLayerLinears);
  for (const auto& [place, modules] : joined) {
    const auto& [layer, linear] = place;
    const bool attention = linear == LayerLinear::kQkv || linear == LayerLinear::kO;
    const auto kind = attention ? AdapterParameter::Part::kAttention : AdapterParameter::Part::kMlp;
    updates_[index_of(layer, linear)] = build_update(modules, kind, builder);
  }
  parameters_ = builder.take_parameters();
}

const LowRankUpdate* LoraAdapter::low_rank_update(int64_t layer, LayerLinear linear) const {
  const size_t index = index_of(layer, linear);
  if (index >= updates_.size() || updates_[index].parts.empty()) return nullptr;
  return &updates_[index];
}

}  // namespace calyrex::model
