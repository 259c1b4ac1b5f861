#include "calyrex/model/decoder.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "calyrex/base/error.h"
#include "calyrex/model/device.h"
#include "calyrex/model/ops.h"
#include "calyrex/model/weight_loading.h"

namespace calyrex::model {

/// One layer's weights: matrices in the compute dtype, products that share an input joined.
struct DecoderLayerWeights {
  at::Tensor input_norm;  // [hidden_size] float32
  FrozenMatrix qkv;       // [(num_heads + 2 * num_kv_heads) * head_dim, hidden_size]
  FrozenMatrix o;         // [hidden_size, num_heads * head_dim]
  at::Tensor post_norm;   // [hidden_size] float32
  FrozenMatrix gate_up;   // [2 * intermediate_size, hidden_size]
  FrozenMatrix down;      // [hidden_size, intermediate_size]
  HeadsSpec heads;
};

namespace {

at::Tensor index_tensor(const std::vector<int64_t>& values, at::Device device) {
  return at::tensor(values, at::kLong).to(device);
}

DecoderLayerWeights load_layer(const WeightLoader& loader, const weights::ModelConfig& config,
                               int64_t layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const auto matrix = [&](std::vector<std::string> names) {
    for (std::string& name : names) name = prefix + name + ".weight";
    return FrozenMatrix(loader.matrix(names));
  };
  const auto vector = [&](const std::string& name) { return loader.vector({prefix + name}); };
  DecoderLayerWeights weights;
  weights.input_norm = vector("input_layernorm.weight");
  weights.qkv = matrix({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"});
  weights.o = matrix({"self_attn.o_proj"});
  weights.post_norm = vector("post_attention_layernorm.weight");
  weights.gate_up = matrix({"mlp.gate_proj", "mlp.up_proj"});
  weights.down = matrix({"mlp.down_proj"});
  weights.heads.num_heads = config.num_heads;
  weights.heads.num_kv_heads = config.num_kv_heads;
  weights.heads.head_dim = config.head_dim;
  weights.heads.norm_eps = config.rms_norm_eps;
  if (config.attention_bias) {
    weights.heads.bias = loader.vector({prefix + "self_attn.q_proj.bias", prefix + "self_attn.k_proj.bias",
                                        prefix + "self_attn.v_proj.bias"});
  }
  if (config.qk_norm) {
    weights.heads.q_norm = vector("self_attn.q_norm.weight");
    weights.heads.k_norm = vector("self_attn.k_norm.weight");
  }
  return weights;
}

}  // namespace

PlannedForward::PlannedForward(const RaggedBatch& batch, const Adapter* adapter, double scale)
    : adapter_(scale == 0.0 ? nullptr : adapter),
      scale_(scale),
      self_attention_(std::make_unique<PlanAttention>(self_attention_plan(batch))) {
  context_.positions = batch.positions;
  context_.self_attention = self_attention_.get();
  if (adapter_ == nullptr) return;
  cal_plan_ = cal_plan(batch, adapter_->config().cal.self_inclusion);
  context_.adapters.push_back(group_of(cal_plan_, batch.positions, cal_attention_));
}

AdapterGroup PlannedForward::group_of(const CalPlan& plan, const at::Tensor& positions,
                                      std::unique_ptr<PlanAttention>& attention) const {
  AdapterGroup group{.adapter = adapter_, .scale = scale_};
  if (plan.empty()) return group;
  group.query_rows = index_tensor(plan.query_rows, positions.device());
  group.key_rows = index_tensor(plan.key_rows, positions.device());
  group.query_positions = positions.index_select(0, group.query_rows);
  group.key_positions = positions.index_select(0, group.key_rows);
  attention = std::make_unique<PlanAttention>(plan.attention);
  group.attention = attention.get();
  return group;
}

at::Tensor PlannedForward::narrow_to(const std::vector<int64_t>& read) {
  const at::Device device = context_.positions.device();
  const std::optional<NarrowedPlan> narrowed = narrow_plan(cal_plan_, read);
  if (!narrowed) return index_tensor(read, device);
  context_.output_rows = index_tensor(narrowed->rows, device);
  if (adapter_ != nullptr) {
    AdapterGroup group =
        group_of(narrowed->plan, context_.positions.index_select(0, context_.output_rows), output_attention_);
    // The MLP of span rows would change nothing that is read.
    group.rows = index_tensor(narrowed->read, device);
    context_.output_adapters = {std::move(group)};
  }
  return index_tensor(narrowed->read, device);
}

Decoder::Decoder(weights::ModelConfig config, at::ScalarType dtype, at::Device device)
    : config_(std::move(config)), dtype_(dtype), device_(device) {}

Decoder::~Decoder() = default;

std::shared_ptr<const Decoder> Decoder::load(const weights::ModelSource& source, at::ScalarType compute_dtype,
                                             at::Device device) {
  return translate_torch_errors(fmt::format("loading {}", source.name()), [&] {
    const at::NoGradGuard no_grad;
    const weights::ModelConfig& config = source.config();
    std::shared_ptr<Decoder> decoder(new Decoder(config, compute_dtype, device));
    const WeightLoader loader(source, compute_dtype, device);
    decoder->embedding_ = loader.matrix({"model.embed_tokens.weight"});
    decoder->head_ = FrozenMatrix(config.tied_head ? decoder->embedding_ : loader.matrix({"lm_head.weight"}),
                                  FrozenMatrix::Plain::kKept);
    decoder->final_norm_ = loader.vector({"model.norm.weight"});
    decoder->inverse_frequencies_ = at::tensor(weights::inverse_frequencies(config), at::kFloat).to(device);
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
      decoder->layers_.push_back(load_layer(loader, config, layer));
    }
    return std::shared_ptr<const Decoder>(decoder);
  });
}

int64_t Decoder::num_parameters() const {
  int64_t total = 0;
  for (const weights::ExpectedTensor& tensor : weights::expected_tensors(config_)) {
    int64_t values = 1;
    for (const int64_t size : tensor.shape) values *= size;
    total += values;
  }
  return total;
}

at::Tensor Decoder::embed(const at::Tensor& token_ids) const {
  return embedding_.index_select(0, token_ids).to(at::kFloat);
}

bool Decoder::narrows(int64_t layer, const ForwardContext& context) const {
  return layer + 1 == config_.num_layers && context.output_rows.defined();
}

at::Tensor Decoder::run_layer(at::Tensor hidden, int64_t layer, const ForwardContext& context) const {
  CALYREX_CHECK(layer >= 0 && layer < config_.num_layers, "layer {}", layer);
  const DecoderLayerWeights& weights = layers_[static_cast<size_t>(layer)];
  const double eps = config_.rms_norm_eps;
  if (!context.rope.defined()) context.rope = rope_table(context.positions, inverse_frequencies_);

  at::Tensor normed = rms_norm(hidden, weights.input_norm, eps, dtype_);
  const Heads heads = split_heads(frozen_linear(normed, weights.qkv), weights.heads, context.rope,
                                  attention_dtype(dtype_, device_));
  const at::Tensor attended = context.self_attention->attend(layer, heads.q, heads.k, heads.v);
  at::Tensor mixed = attended.flatten(1).to(dtype_);
  if (narrows(layer, context)) {
    mixed = gather_rows(mixed, context.output_rows);
    hidden = gather_rows(hidden, context.output_rows);
  }
  const at::Tensor projected = frozen_linear(mixed, weights.o);
  if (at::GradMode::is_enabled()) {
    hidden = add_scaled(hidden, projected, 1.0);
    normed = rms_norm(hidden, weights.post_norm, eps, dtype_);
  } else {
    normed = add_rms_norm_(hidden, projected, weights.post_norm, eps, dtype_);
  }
  const at::Tensor activated = swiglu(frozen_linear(normed, weights.gate_up));
  return add_scaled(hidden, frozen_linear(activated, weights.down), 1.0);
}

at::Tensor Decoder::run_slots(int64_t layer, const at::Tensor& layer_input, at::Tensor hidden,
                              const ForwardContext& context) const {
  const bool narrow = narrows(layer, context);
  const at::Tensor input =
      narrow && layer_input.defined() ? gather_rows(layer_input, context.output_rows) : layer_input;
  for (const AdapterGroup& group : narrow ? context.output_adapters : context.adapters) {
    if (group.active()) hidden = group.adapter->after_layer(layer, input, std::move(hidden), group);
  }
  return hidden;
}

at::Tensor Decoder::run_layers(at::Tensor hidden, int64_t begin, int64_t end,
                               const ForwardContext& context) const {
  for (int64_t layer = begin; layer < end; ++layer) {
    at::Tensor layer_input;
    for (const AdapterGroup& group : context.adapters) {
      if (group.active() && group.adapter->reads_layer_input(layer) && !layer_input.defined()) {
        layer_input = at::GradMode::is_enabled() ? hidden : hidden.clone();
      }
    }
    hidden = run_layer(std::move(hidden), layer, context);
    hidden = run_slots(layer, layer_input, std::move(hidden), context);
    if (context.on_layer) context.on_layer(layer, hidden);
  }
  return hidden;
}

at::Tensor Decoder::final_norm(const at::Tensor& hidden) const {
  return rms_norm(hidden, final_norm_, config_.rms_norm_eps, dtype_);
}

at::Tensor Decoder::logits(const at::Tensor& normed) const {
  return frozen_linear(normed, head_).to(at::kFloat);
}

}  // namespace calyrex::model
