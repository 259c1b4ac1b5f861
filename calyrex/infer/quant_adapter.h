// The blocks of adapters with packed weights, for QuantRunner.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "calyrex/infer/core/sequence.h"
#include "calyrex/infer/quant_network.h"
#include "calyrex/infer/span_store.h"
#include "calyrex/kernels/quant_matrix.h"
#include "calyrex/weights/adapter_folder.h"

namespace calyrex::infer {

/// The block after one layer. Without attention `q` is undefined, without an MLP `mlp.down`.
struct QuantBlocks {
  std::vector<float> attn_norm;  // [hidden_size]
  kernels::QuantMatrix q;        // [num_heads * head_dim, hidden_size]
  kernels::QuantMatrix kv;       // [2 * num_kv_heads * head_dim, hidden_size], k first
  kernels::QuantMatrix o;        // [hidden_size, num_heads * head_dim]
  std::vector<float> q_bias, kv_bias, q_norm, k_norm;
  QuantMlp mlp;
};

/// An adapter in 8 bits, and the spans of the sequences that use it (CAL only).
struct QuantAdapter final : ServedAdapter {
  weights::AdapterFolder folder;
  std::map<int64_t, QuantBlocks> blocks;  // by the layer they follow
  std::unique_ptr<SpanStore> spans;
  int64_t parameters = 0;
  /// The same adapter in the scorer of the engine; loaded when a score first needs it.
  mutable std::shared_ptr<const ServedAdapter> for_scoring;

  const weights::AdapterConfig& config() const { return folder.config; }
  bool reads_layer_input() const;
  int64_t num_parameters() const override { return parameters; }
};

/// Whether this kind and shape of adapter runs on packed weights.
bool can_pack(const weights::AdapterConfig& config, const weights::ModelConfig& backbone);

/// Packs the blocks of a folder that was opened for this backbone and that can_pack().
std::shared_ptr<QuantAdapter> load_quant_adapter(const weights::AdapterFolder& folder, int64_t page_size);

}  // namespace calyrex::infer
