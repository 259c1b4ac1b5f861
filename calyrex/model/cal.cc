#include "calyrex/model/cal.h"

#include <ATen/ATen.h>

#include "calyrex/model/ops.h"

namespace calyrex::model {
namespace {

/// Bias, head norm and rotation of projected heads, each where the block has it. Plain ops: these are off by
/// default.
at::Tensor finish_heads(at::Tensor heads, const TrainedTensor& norm, double eps, const RopeTable& rope) {
  if (norm.defined()) heads = rms_norm_plain(heads, norm.leaf, eps);
  if (rope.defined()) heads = rotate_heads(heads, rope);
  return heads;
}

}  // namespace

CalAdapter::CalAdapter(weights::AdapterConfig config, std::map<int64_t, CalBlock> blocks,
                       std::vector<AdapterParameter> parameters, at::Tensor inverse_frequencies)
    : Adapter(std::move(config)),
      blocks_(std::move(blocks)),
      inverse_frequencies_(std::move(inverse_frequencies)) {
  parameters_ = std::move(parameters);
}

at::Tensor CalAdapter::attention_delta(int64_t layer, const CalBlock& block, const at::Tensor& hidden,
                                       const AdapterGroup& group) const {
  const weights::CalConfig& shape = config_.cal;
  const at::ScalarType compute = block.q.compute.scalar_type();
  const at::ScalarType attention = attention_dtype(compute, hidden.device());
  const double eps = shape.rms_norm_eps;
  const bool rotate = shape.position == weights::CalPosition::kRope;

  const at::Tensor query_states =
      rms_norm(gather_rows(hidden, group.query_rows), block.attn_norm.leaf, eps, compute);
  at::Tensor q = trained_linear(query_states, block.q.leaf, block.q.compute).to(attention);
  if (block.q_bias.defined()) q = q + block.q_bias.leaf;
  const RopeTable query_rope = rotate ? rope_table(group.query_positions, inverse_frequencies_) : RopeTable{};
  q = finish_heads(q.unflatten(1, {shape.num_heads, shape.head_dim}), block.q_norm, eps, query_rope);

  at::Tensor k, v;
  if (group.key_rows.defined()) {
    const at::Tensor key_states =
        rms_norm(gather_rows(hidden, group.key_rows), block.attn_norm.leaf, eps, compute);
    at::Tensor kv = trained_linear(key_states, block.kv.leaf, block.kv.compute).to(attention);
    if (block.kv_bias.defined()) kv = kv + block.kv_bias.leaf;
    kv = kv.unflatten(1, {2, shape.num_kv_heads, shape.head_dim});
    const RopeTable key_rope = rotate ? rope_table(group.key_positions, inverse_frequencies_) : RopeTable{};
    k = finish_heads(kv.select(1, 0), block.k_norm, eps, key_rope);
    v = kv.select(1, 1);
  }
  const at::Tensor attended = group.attention->attend(layer, q, k, v).flatten(1).to(compute);
  return trained_linear(attended, block.o.leaf, block.o.compute);
}

at::Tensor CalAdapter::after_layer(int64_t layer, const at::Tensor&, at::Tensor hidden,
                                   const AdapterGroup& group) const {
  const auto found = blocks_.find(layer);
  if (found == blocks_.end()) return hidden;
  const CalBlock& block = found->second;
  if (group.query_rows.defined()) {
    const at::Tensor delta = attention_delta(layer, block, hidden, group);
    hidden = add_contribution(layer, AdapterParameter::Part::kAttention, std::move(hidden), group.query_rows,
                              delta, group);
  }
  const bool anchored = config_.mlp_scope() == weights::MlpScope::kAnchored;
  if (!block.mlp.down.defined() || (anchored && !group.query_rows.defined())) return hidden;
  const at::Tensor& rows = anchored ? group.query_rows : group.rows;
  const at::Tensor delta = block.mlp.forward(gather_rows(hidden, rows));
  return add_contribution(layer, AdapterParameter::Part::kMlp, std::move(hidden), rows, delta, group);
}

}  // namespace calyrex::model
