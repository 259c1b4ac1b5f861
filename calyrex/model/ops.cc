#include "calyrex/model/ops.h"

#include <cstring>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "calyrex/base/error.h"
#include "calyrex/kernels/elementwise.h"
#include "calyrex/kernels/norm.h"
#include "calyrex/model/held.h"
#include "calyrex/model/kernel_args.h"

namespace calyrex::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

at::Tensor rms_norm_forward(const at::Tensor& x, const at::Tensor& weight, double eps,
                            at::ScalarType out_dtype) {
  at::Tensor out = at::empty(x.sizes(), x.options().dtype(out_dtype));
  visit_values(out, [&](auto* values) {
    kernels::rms_norm(const_values<float>(x), const_values<float>(weight), static_cast<float>(eps), x.size(0),
                      x.size(1), values);
  });
  return out;
}

class RmsNorm : public Function<RmsNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double eps, at::ScalarType out_dtype) {
    context->save_for_backward({x, weight});
    context->saved_data["eps"] = eps;
    context->saved_data["weight_grad"] = weight.requires_grad();
    return rms_norm_forward(x, weight, eps, out_dtype);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor grad_out = grads[0].contiguous();
    at::Tensor grad_x = at::zeros(x.sizes(), x.options());
    at::Tensor grad_weight;
    if (context->saved_data["weight_grad"].toBool()) grad_weight = at::zeros(saved[1].sizes(), x.options());
    visit_values(grad_out, [&](const auto* values) {
      kernels::rms_norm_backward(const_values<float>(x), const_values<float>(saved[1]),
                                 static_cast<float>(context->saved_data["eps"].toDouble()), values, x.size(0),
                                 x.size(1), grad_x.mutable_data_ptr<float>(),
                                 grad_weight.defined() ? grad_weight.mutable_data_ptr<float>() : nullptr);
    });
    return {grad_x, grad_weight, at::Tensor(), at::Tensor()};
  }
};

class FrozenLinear : public Function<FrozenLinear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const FrozenMatrix& weight) {
    context->saved_data["weight"] = hold(weight);
    return weight.multiply(x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    return {held<FrozenMatrix>(context->saved_data["weight"]).multiply_backward(grads[0]), at::Tensor()};
  }
};

class TrainedLinear : public Function<TrainedLinear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& leaf,
                            const at::Tensor& compute) {
    context->save_for_backward({x, compute});
    context->saved_data["x_grad"] = x.requires_grad();
    return at::linear(x, compute);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    at::Tensor grad_x;
    if (context->saved_data["x_grad"].toBool()) grad_x = at::mm(grads[0], saved[1]);
    return {grad_x, at::mm(grads[0].t(), saved[0]).to(at::kFloat), at::Tensor()};
  }
};

/// Calls `row_function(i, rows[i])` for every listed row, in parallel; without a list, for each of `count`
/// rows.
template <typename RowFunction>
void for_each_row(const at::Tensor& rows, int64_t count, const RowFunction& row_function) {
  constexpr int64_t kGrain = 16;
  const int64_t* listed = rows.defined() ? rows.const_data_ptr<int64_t>() : nullptr;
  at::parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) row_function(n, listed == nullptr ? n : listed[n]);
  });
}

/// Copies x[rows] out, or rows back into zeros of `size` rows.
at::Tensor gather(const at::Tensor& x, const at::Tensor& rows) {
  at::Tensor out = at::empty({rows.size(0), x.size(1)}, x.options());
  const size_t bytes = static_cast<size_t>(x.size(1)) * x.element_size();
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  for_each_row(rows, rows.size(0), [&](int64_t n, int64_t row) {
    std::memcpy(to + static_cast<size_t>(n) * bytes, from + static_cast<size_t>(row) * bytes, bytes);
  });
  return out;
}

at::Tensor scatter(const at::Tensor& values, const at::Tensor& rows, int64_t size) {
  at::Tensor out = at::zeros({size, values.size(1)}, values.options());
  const size_t bytes = static_cast<size_t>(values.size(1)) * values.element_size();
  const auto* from = static_cast<const char*>(values.const_data_ptr());
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  for_each_row(rows, rows.size(0), [&](int64_t n, int64_t row) {
    std::memcpy(to + static_cast<size_t>(row) * bytes, from + static_cast<size_t>(n) * bytes, bytes);
  });
  return out;
}

class GatherRows : public Function<GatherRows> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& rows) {
    context->save_for_backward({rows});
    context->saved_data["size"] = x.size(0);
    return gather(x, rows);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor rows = context->get_saved_variables()[0];
    return {scatter(grads[0].contiguous(), rows, context->saved_data["size"].toInt()), at::Tensor()};
  }
};

void add_rows_in_place(at::Tensor& x, const at::Tensor& rows, const at::Tensor& delta, double scale) {
  auto* target = x.mutable_data_ptr<float>();
  const int64_t width = x.size(1);
  visit_values(delta, [&](const auto* values) {
    if (!rows.defined()) {
      kernels::add_scaled(target, values, static_cast<float>(scale), x.numel());
      return;
    }
    const auto factor = static_cast<float>(scale);
    for_each_row(rows, delta.size(0), [&](int64_t n, int64_t row) {
      float* to = target + row * width;
      const auto* from = values + n * width;
      for (int64_t column = 0; column < width; ++column)
        to[column] += factor * kernels::to_float(from[column]);
    });
  });
}

/// Row indices as an argument of an autograd function, which takes no undefined tensors.
struct Rows {
  at::Tensor index;  // undefined = all
};

class AddToRows : public Function<AddToRows> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Rows& rows,
                            const at::Tensor& delta, double scale) {
    context->save_for_backward({rows.index});
    context->saved_data["scale"] = scale;
    context->saved_data["dtype"] = delta.scalar_type();
    at::Tensor out = x.clone();
    add_rows_in_place(out, rows.index, delta, scale);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor rows = context->get_saved_variables()[0];
    const double scale = context->saved_data["scale"].toDouble();
    const at::Tensor grad = grads[0].contiguous();
    at::Tensor grad_delta = rows.defined() ? gather(grad, rows) : grad;
    if (scale != 1.0) grad_delta = grad_delta * scale;
    return {grad, at::Tensor(), grad_delta.to(context->saved_data["dtype"].toScalarType()), at::Tensor()};
  }
};

at::Tensor swiglu_forward(const at::Tensor& gate_up) {
  const int64_t width = gate_up.size(1) / 2;
  at::Tensor out = at::empty({gate_up.size(0), width}, gate_up.options());
  visit_values(gate_up, [&](auto* from) {
    kernels::swiglu(from, gate_up.size(0), width, mutable_values<PointedTo<decltype(from)>>(out));
  });
  return out;
}

class Swiglu : public Function<Swiglu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up) {
    context->save_for_backward({gate_up});
    return swiglu_forward(gate_up);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor gate_up = context->get_saved_variables()[0];
    const at::Tensor grad_out = grads[0].contiguous();
    at::Tensor grad = at::empty(gate_up.sizes(), gate_up.options());
    visit_values(gate_up, [&](auto* from) {
      using Value = PointedTo<decltype(from)>;
      kernels::swiglu_backward(from, const_values<Value>(grad_out), gate_up.size(0), gate_up.size(1) / 2,
                               mutable_values<Value>(grad));
    });
    return {grad};
  }
};

}  // namespace

at::ScalarType attention_dtype(at::ScalarType compute_dtype, at::Device device) {
  return device.is_cpu() ? at::kFloat : compute_dtype;
}

at::Tensor rms_norm_plain(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return x * at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + eps) * weight;
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType out_dtype) {
  if (!x.is_cpu()) return rms_norm_plain(x, weight, eps).to(out_dtype);
  if (!at::GradMode::is_enabled()) return rms_norm_forward(x, weight, eps, out_dtype);
  return RmsNorm::apply(x, weight, eps, out_dtype);
}

at::Tensor add_rms_norm_(at::Tensor& x, const at::Tensor& delta, const at::Tensor& weight, double eps,
                         at::ScalarType out_dtype) {
  CALYREX_CHECK(!at::GradMode::is_enabled());
  if (!x.is_cpu()) {
    x.add_(delta);
    return rms_norm_plain(x, weight, eps).to(out_dtype);
  }
  at::Tensor out = at::empty(x.sizes(), x.options().dtype(out_dtype));
  visit_values(delta, [&](const auto* from) {
    visit_values(out, [&](auto* to) {
      kernels::add_rms_norm(x.mutable_data_ptr<float>(), from, const_values<float>(weight),
                            static_cast<float>(eps), x.size(0), x.size(1), to);
    });
  });
  return out;
}

at::Tensor frozen_linear(const at::Tensor& x, const FrozenMatrix& weight) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return weight.multiply(x);
  return FrozenLinear::apply(x, weight);
}

at::Tensor trained_linear(const at::Tensor& x, const at::Tensor& leaf, const at::Tensor& compute) {
  if (!at::GradMode::is_enabled() || !leaf.requires_grad()) return at::linear(x, compute);
  return TrainedLinear::apply(x, leaf, compute);
}

at::Tensor add_to_rows(at::Tensor x, const at::Tensor& rows, const at::Tensor& delta, double scale) {
  if (!x.is_cpu()) {
    const at::Tensor scaled = delta.to(at::kFloat) * scale;
    return rows.defined() ? x.index_add(0, rows, scaled) : x + scaled;
  }
  if (at::GradMode::is_enabled()) return AddToRows::apply(x, Rows{rows}, delta, scale);
  add_rows_in_place(x, rows, delta, scale);
  return x;
}

at::Tensor add_scaled(at::Tensor x, const at::Tensor& delta, double scale) {
  return add_to_rows(std::move(x), at::Tensor(), delta, scale);
}

at::Tensor gather_rows(const at::Tensor& x, const at::Tensor& rows) {
  if (!rows.defined()) return x;
  if (!x.is_cpu()) return x.index_select(0, rows);
  return at::GradMode::is_enabled() ? GatherRows::apply(x, rows) : gather(x, rows);
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  if (!gate_up.is_cpu()) {
    const std::vector<at::Tensor> halves = gate_up.chunk(2, 1);
    return at::silu(halves[0]) * halves[1];
  }
  return at::GradMode::is_enabled() ? Swiglu::apply(gate_up) : swiglu_forward(gate_up);
}

}  // namespace calyrex::model
