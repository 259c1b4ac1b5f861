#include "calyrex/model/decoder.h"

#include <algorithm>
#include <optional>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "calyrex/base/error.h"
#include "calyrex/model/device.h"
#include "calyrex/model/lora.h"
#include "calyrex/model/ops.h"

namespace calyrex::model {

namespace {

at::Tensor index_tensor(const std::vector<int64_t>& values, at::Device device) {
  return at::tensor(values, at::kLong).to(device);
}

/// The linear's weight in a layer.
const LinearWeight& weight_of(const DecoderLayerWeights& layer, LayerLinear which) {
  switch (which) {
    case LayerLinear::kQkv:
      return layer.qkv;
    case LayerLinear::kO:
      return layer.o;
    case LayerLinear::kGateUp:
      return layer.gate_up;
    case LayerLinear::kDown:
      break;
  }
  return layer.down;
}

}  // namespace

PlannedForward::PlannedForward(const RaggedBatch& batch, const Adapter* adapter, double scale)
    : adapter_(scale == 0.0 ? nullptr : adapter),
      scale_(scale),
      row_multiple_(batch.row_multiple),
      self_attention_(std::make_unique<PlanAttention>(self_attention_plan(batch))) {
  context_.positions = batch.positions;
  context_.self_attention = self_attention_.get();
  if (adapter_ == nullptr) return;
  if (!adapter_->works_inside_layers()) cal_plan_ = cal_plan(batch, adapter_->config().cal.self_inclusion);
  context_.adapters.push_back(group_of(cal_plan_, batch.positions, cal_attention_));
}

AdapterGroup PlannedForward::group_of(const CalPlan& plan, const at::Tensor& positions,
                                      std::unique_ptr<PlanAttention>& attention) const {
  AdapterGroup group{.adapter = adapter_, .scale = scale_};
  if (plan.empty()) return group;
  // Queries without a segment get a contribution of zeros; an anchored MLP would change them.
  const bool anchored = adapter_->config().mlp_scope() == weights::MlpScope::kAnchored;
  const int64_t num_rows = positions.size(0);
  group.query_rows =
      index_tensor(fill_up(plan.query_rows, anchored ? 1 : row_multiple_, num_rows), positions.device());
  group.key_rows = index_tensor(fill_up(plan.key_rows, row_multiple_, num_rows), positions.device());
  group.query_positions = positions.index_select(0, group.query_rows);
  group.key_positions = positions.index_select(0, group.key_rows);
  AttentionPlan filled = plan.attention;
  filled.num_queries = group.query_rows.size(0);
  filled.num_keys = group.key_rows.size(0);
  attention = std::make_unique<PlanAttention>(std::move(filled));
  group.attention = attention.get();
  return group;
}

at::Tensor PlannedForward::narrow_to(const std::vector<int64_t>& read) {
  const at::Device device = context_.positions.device();
  const int64_t num_rows = context_.positions.size(0);
  std::vector<int64_t> wide = fill_up(read, row_multiple_, num_rows, cal_plan_.key_rows);
  std::ranges::sort(wide);
  const std::optional<NarrowedPlan> narrowed = narrow_plan(cal_plan_, wide);
  if (!narrowed) return index_tensor(read, device);
  context_.output_rows = index_tensor(fill_up(narrowed->rows, row_multiple_, num_rows), device);
  if (adapter_ != nullptr) {
    AdapterGroup group =
        group_of(narrowed->plan, context_.positions.index_select(0, context_.output_rows), output_attention_);
    // The MLP of span rows would change nothing that is read.
    if (static_cast<int64_t>(narrowed->read.size()) < context_.output_rows.size(0)) {
      group.rows = index_tensor(narrowed->read, device);
    }
    context_.output_adapters = {std::move(group)};
  }
  std::vector<int64_t> places;
  for (const int64_t row : read) {
    places.push_back(std::ranges::lower_bound(narrowed->rows, row) - narrowed->rows.begin());
  }
  return index_tensor(places, device);
}

Decoder::Decoder(weights::ModelConfig config, DecoderWeights weights, at::ScalarType dtype, at::Device device)
    : config_(std::move(config)),
      dtype_(dtype),
      device_(device),
      weights_(std::move(weights)),
      inverse_frequencies_(at::tensor(weights::inverse_frequencies(config_), at::kFloat).to(device)) {}

std::shared_ptr<const Decoder> Decoder::load(const weights::ModelSource& source, at::ScalarType compute_dtype,
                                             at::Device device) {
  return translate_torch_errors(fmt::format("loading {}", source.name()), [&] {
    const at::NoGradGuard no_grad;
    return std::make_shared<const Decoder>(
        source.config(), load_frozen_weights(source, compute_dtype, device), compute_dtype, device);
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
  return weights_.embedding.index_select(0, token_ids).to(at::kFloat);
}

bool Decoder::narrows(int64_t layer, const ForwardContext& context) const {
  return layer + 1 == config_.num_layers && context.output_rows.defined();
}

at::Tensor Decoder::linear(int64_t layer, LayerLinear which, const at::Tensor& x,
                           const std::vector<AdapterGroup>& groups) const {
  const LinearWeight& weight = weight_of(weights_.layers[static_cast<size_t>(layer)], which);
  if (at::GradMode::is_enabled()) {
    if (groups.size() != 1 || !groups.front().active()) return weight.multiply(x);
    const AdapterGroup& group = groups.front();
    const LowRankUpdate* update = group.adapter->low_rank_update(layer, which);
    if (update == nullptr) return weight.multiply(x);
    CALYREX_CHECK(!group.rows.defined(), "under autograd an update works on all rows");
    return low_rank_linear(x, weight.frozen, *update, group.scale);
  }
  at::Tensor y = weight.multiply(x);
  for (const AdapterGroup& group : groups) {
    if (!group.active()) continue;
    if (const LowRankUpdate* update = group.adapter->low_rank_update(layer, which)) {
      add_low_rank_(y, x, group.rows, *update, group.scale);
    }
  }
  return y;
}

at::Tensor Decoder::run_layer(at::Tensor hidden, int64_t layer, const ForwardContext& context) const {
  CALYREX_CHECK(layer >= 0 && layer < config_.num_layers, "layer {}", layer);
  const DecoderLayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const std::vector<AdapterGroup>& output_groups =
      narrows(layer, context) ? context.output_adapters : context.adapters;
  const double eps = config_.rms_norm_eps;
  if (!context.rope.defined()) context.rope = rope_table(context.positions, inverse_frequencies_);

  at::Tensor normed = rms_norm(hidden, weights.input_norm, eps, dtype_);
  const Heads heads = split_heads(linear(layer, LayerLinear::kQkv, normed, context.adapters), weights.heads,
                                  context.rope, attention_dtype(dtype_, device_));
  const at::Tensor attended = context.self_attention->attend(layer, heads.q, heads.k, heads.v);
  at::Tensor mixed = attended.flatten(1).to(dtype_);
  if (narrows(layer, context)) {
    mixed = gather_rows(mixed, context.output_rows);
    hidden = gather_rows(hidden, context.output_rows);
  }
  const at::Tensor projected = linear(layer, LayerLinear::kO, mixed, output_groups);
  if (at::GradMode::is_enabled()) {
    hidden = add_scaled(hidden, projected, 1.0);
    normed = rms_norm(hidden, weights.post_norm, eps, dtype_);
  } else {
    normed = add_rms_norm_(hidden, projected, weights.post_norm, eps, dtype_);
  }
  const at::Tensor activated = swiglu(linear(layer, LayerLinear::kGateUp, normed, output_groups));
  return add_scaled(hidden, linear(layer, LayerLinear::kDown, activated, output_groups), 1.0);
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
  return rms_norm(hidden, weights_.final_norm, config_.rms_norm_eps, dtype_);
}

at::Tensor Decoder::logits(const at::Tensor& normed) const {
  return weights_.head.multiply(normed).to(at::kFloat);
}

}  // namespace calyrex::model
