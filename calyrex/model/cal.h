// The CAL block: cross-attention from the whole sequence to the system-prompt span, then a gated MLP (PAPER,
// "The method").
#pragma once

#include <map>

#include "calyrex/model/adapter.h"
#include "calyrex/model/mlp.h"

namespace calyrex::model {

/// Weights of the block after one layer. Optional tensors are undefined.
struct CalBlock {
  TrainedTensor attn_norm;  // [hidden_size]
  TrainedTensor q;          // [num_heads * head_dim, hidden_size]
  TrainedTensor kv;         // [2 * num_kv_heads * head_dim, hidden_size], k first
  TrainedTensor o;          // [hidden_size, num_heads * head_dim]
  TrainedTensor q_bias;     // [num_heads * head_dim]
  TrainedTensor kv_bias;    // [2 * num_kv_heads * head_dim]
  TrainedTensor q_norm;     // [head_dim]
  TrainedTensor k_norm;     // [head_dim]
  GatedMlp mlp;             // undefined tensors when intermediate_size is 0
};

class CalAdapter final : public Adapter {
 public:
  /// `inverse_frequencies` [head_dim / 2] is the backbone's, for position: rope.
  CalAdapter(weights::AdapterConfig config, std::map<int64_t, CalBlock> blocks,
             std::vector<AdapterParameter> parameters, at::Tensor inverse_frequencies);

  at::Tensor after_layer(int64_t layer, const at::Tensor& layer_input, at::Tensor hidden,
                         const AdapterGroup& group) const override;

 private:
  /// What the attention sublayer adds to the query rows: [query_rows, hidden_size] in the compute dtype.
  at::Tensor attention_delta(int64_t layer, const CalBlock& block, const at::Tensor& hidden,
                             const AdapterGroup& group) const;

  std::map<int64_t, CalBlock> blocks_;
  at::Tensor inverse_frequencies_;
};

}  // namespace calyrex::model
