// Packed projections to heads and back, and rotary embedding.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "calyrex/kernels/qkv_rope.h"
#include "calyrex/model/kernel_args.h"
#include "calyrex/model/ops.h"

namespace calyrex::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const float* optional_values(const at::Tensor& tensor) {
  return tensor.defined() ? const_values<float>(tensor) : nullptr;
}

kernels::QkvTransform kernel_transform(const HeadsSpec& spec, const at::Tensor& cos, const at::Tensor& sin) {
  return {.heads = {spec.num_heads, spec.num_kv_heads, spec.head_dim},
          .bias = optional_values(spec.bias),
          .q_norm = optional_values(spec.q_norm),
          .k_norm = optional_values(spec.k_norm),
          .norm_eps = static_cast<float>(spec.norm_eps),
          .cos = optional_values(cos),
          .sin = optional_values(sin)};
}

Heads split_on_cpu(const at::Tensor& packed, const HeadsSpec& spec, const RopeTable& rope,
                   at::ScalarType out_dtype) {
  const int64_t rows = packed.size(0);
  const auto options = packed.options().dtype(out_dtype);
  Heads heads{.q = at::empty({rows, spec.num_heads, spec.head_dim}, options),
              .k = at::empty({rows, spec.num_kv_heads, spec.head_dim}, options),
              .v = at::empty({rows, spec.num_kv_heads, spec.head_dim}, options)};
  visit_values(packed, [&](const auto* from) {
    visit_values(heads.q, [&](auto* q) {
      using In = PointedTo<decltype(from)>;
      using Out = PointedTo<decltype(q)>;
      kernels::qkv_rope(kernels::QkvRopeArgs<In, Out>{.transform = kernel_transform(spec, rope.cos, rope.sin),
                                                      .rows = rows,
                                                      .qkv = from,
                                                      .q = q,
                                                      .k = mutable_values<Out>(heads.k),
                                                      .v = mutable_values<Out>(heads.v)});
    });
  });
  return heads;
}

class SplitHeads : public torch::autograd::Function<SplitHeads> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& packed, const HeadsSpec& spec,
                               const RopeTable& rope, at::ScalarType out_dtype) {
    context->save_for_backward({packed, rope.cos, rope.sin, spec.bias, spec.q_norm, spec.k_norm});
    context->saved_data["shape"] = std::vector<int64_t>{spec.num_heads, spec.num_kv_heads, spec.head_dim};
    context->saved_data["eps"] = spec.norm_eps;
    const Heads heads = split_on_cpu(packed, spec, rope, out_dtype);
    return {heads.q, heads.k, heads.v};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const std::vector<int64_t> shape = context->saved_data["shape"].toIntVector();
    const HeadsSpec spec{.num_heads = shape[0],
                         .num_kv_heads = shape[1],
                         .head_dim = shape[2],
                         .norm_eps = context->saved_data["eps"].toDouble(),
                         .bias = saved[3],
                         .q_norm = saved[4],
                         .k_norm = saved[5]};
    const at::Tensor &packed = saved[0], q = grads[0].contiguous(), k = grads[1].contiguous(),
                     v = grads[2].contiguous();
    at::Tensor grad = at::empty(packed.sizes(), packed.options());
    visit_values(q, [&](const auto* grad_q) {
      visit_values(grad, [&](auto* out) {
        using Grad = PointedTo<decltype(grad_q)>;
        using Out = PointedTo<decltype(out)>;
        kernels::qkv_rope_backward(
            kernels::QkvRopeBackwardArgs<Grad, Out>{.transform = kernel_transform(spec, saved[1], saved[2]),
                                                    .rows = packed.size(0),
                                                    .grad_q = grad_q,
                                                    .grad_k = const_values<Grad>(k),
                                                    .grad_v = const_values<Grad>(v),
                                                    .qkv = const_values<Out>(packed),
                                                    .grad_qkv = out});
      });
    });
    return {grad, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

bool wants_grad(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

/// The same by plain ops, for other devices and for biases and norms that are trained.
Heads split_plain(const at::Tensor& packed, const HeadsSpec& spec, const RopeTable& rope,
                  at::ScalarType out_dtype) {
  at::Tensor all = packed.to(at::kFloat);
  if (spec.bias.defined()) all = all + spec.bias;
  const std::vector<at::Tensor> parts =
      all.unflatten(1, {-1, spec.head_dim})
          .split_with_sizes({spec.num_heads, spec.num_kv_heads, spec.num_kv_heads}, 1);
  at::Tensor q = parts[0], k = parts[1];
  if (spec.q_norm.defined()) q = rms_norm_plain(q, spec.q_norm, spec.norm_eps);
  if (spec.k_norm.defined()) k = rms_norm_plain(k, spec.k_norm, spec.norm_eps);
  return {.q = rotate_heads(q, rope).to(out_dtype),
          .k = rotate_heads(k, rope).to(out_dtype),
          .v = parts[2].to(out_dtype)};
}

}  // namespace

RopeTable rope_table(const at::Tensor& positions, const at::Tensor& inverse_frequencies) {
  const at::Tensor angles = at::outer(positions.to(at::kFloat), inverse_frequencies);
  return {.cos = angles.cos(), .sin = angles.sin()};
}

at::Tensor rotate_heads(const at::Tensor& heads, const RopeTable& rope) {
  const std::vector<at::Tensor> halves = heads.chunk(2, -1);
  const at::Tensor cos = rope.cos.unsqueeze(1), sin = rope.sin.unsqueeze(1);  // [rows, 1, head_dim / 2]
  return at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
}

Heads split_heads(const at::Tensor& packed, const HeadsSpec& spec, const RopeTable& rope,
                  at::ScalarType out_dtype) {
  const bool trained = at::GradMode::is_enabled() && (wants_grad(spec.bias) || wants_grad(spec.q_norm));
  if (!packed.is_cpu() || trained) return split_plain(packed, spec, rope, out_dtype);
  if (!at::GradMode::is_enabled()) return split_on_cpu(packed, spec, rope, out_dtype);
  const variable_list heads = SplitHeads::apply(packed, spec, rope, out_dtype);
  return {.q = heads[0], .k = heads[1], .v = heads[2]};
}

}  // namespace calyrex::model
