// The backbone: one description of the network for training, scoring and serving.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/model/adapter.h"
#include "calyrex/model/attention.h"
#include "calyrex/model/decoder_weights.h"
#include "calyrex/model/ops.h"
#include "calyrex/model/ragged_batch.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::model {

/// What changes from one forward to the next.
struct ForwardContext {
  at::Tensor positions;  // [num_tokens] int64
  Attention* self_attention = nullptr;
  std::vector<AdapterGroup> adapters;  // disjoint rows
  /// Batch rows that the last layer gives, instead of all; its slots then run
  /// `output_adapters`, whose row numbers index these.
  at::Tensor output_rows;
  std::vector<AdapterGroup> output_adapters;
  /// Called with the state after each layer and its slots; for analysis and tests.
  std::function<void(int64_t layer, const at::Tensor& hidden)> on_layer;
  /// Rotation of `positions`; computed by the first layer that runs.
  mutable RopeTable rope;
};

/// Owns the plans of a whole-batch forward (training and scoring): all keys are in the batch.
class PlannedForward {
 public:
  /// `adapter` may be null (base). One adapter and scale for the whole batch.
  PlannedForward(const RaggedBatch& batch, const Adapter* adapter, double scale = 1.0);
  /// Lets the last layer and its block skip what `read` (ascending batch rows) does not depend on. Returns
  /// the places of `read` in the result of the last layer.
  at::Tensor narrow_to(const std::vector<int64_t>& read);
  ForwardContext& context() { return context_; }
  const ForwardContext& context() const { return context_; }

 private:
  AdapterGroup group_of(const CalPlan& plan, const at::Tensor& positions,
                        std::unique_ptr<PlanAttention>& attention) const;

  const Adapter* adapter_;
  double scale_;
  int64_t row_multiple_;
  CalPlan cal_plan_;
  std::unique_ptr<PlanAttention> self_attention_;
  std::unique_ptr<PlanAttention> cal_attention_;
  std::unique_ptr<PlanAttention> output_attention_;
  ForwardContext context_;
};

/// Llama, Mistral, Qwen2 and Qwen3 decoders. Loaded weights never change and never require grad; trained ones
/// (full.h) change between forwards. The residual stream, norms and logits are float32; products run in the
/// compute dtype. Thread-compatible: one caller at a time.
class Decoder {
 public:
  static std::shared_ptr<const Decoder> load(const weights::ModelSource& source, at::ScalarType compute_dtype,
                                             at::Device device);
  Decoder(weights::ModelConfig config, DecoderWeights weights, at::ScalarType dtype, at::Device device);

  const weights::ModelConfig& config() const { return config_; }
  at::ScalarType dtype() const { return dtype_; }
  at::Device device() const { return device_; }
  int64_t num_parameters() const;

  /// token_ids [num_tokens] -> [num_tokens, hidden_size] float32.
  at::Tensor embed(const at::Tensor& token_ids) const;

  /// Runs layers [begin, end) with their slots. Without autograd `hidden` is consumed (changed in place).
  /// Autograd is followed when grad mode is on and `hidden` or an adapter requires grad. The result of the
  /// last layer has the rows of `context.output_rows`, where those are given.
  at::Tensor run_layers(at::Tensor hidden, int64_t begin, int64_t end, const ForwardContext& context) const;
  /// One layer without its slots, and the slots alone: for the boundary between the frozen prefix and the
  /// trained tail.
  at::Tensor run_layer(at::Tensor hidden, int64_t layer, const ForwardContext& context) const;
  at::Tensor run_slots(int64_t layer, const at::Tensor& layer_input, at::Tensor hidden,
                       const ForwardContext& context) const;

  /// Final norm: [rows, hidden_size] float32 -> compute dtype.
  at::Tensor final_norm(const at::Tensor& hidden) const;
  /// lm_head of normed rows: [rows, hidden_size] compute dtype -> [rows, vocab_size] float32.
  at::Tensor logits(const at::Tensor& normed) const;
  /// [vocab_size, hidden_size]
  const LinearWeight& head() const { return weights_.head; }

 private:
  /// Whether this layer gives `output_rows` only.
  bool narrows(int64_t layer, const ForwardContext& context) const;
  /// A joined linear of a layer with what the groups' adapters add to it.
  at::Tensor linear(int64_t layer, LayerLinear which, const at::Tensor& x,
                    const std::vector<AdapterGroup>& groups) const;

  weights::ModelConfig config_;
  at::ScalarType dtype_;
  at::Device device_;
  DecoderWeights weights_;
  at::Tensor inverse_frequencies_;  // [head_dim / 2] float32
};

}  // namespace calyrex::model
