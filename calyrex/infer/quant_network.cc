#include "calyrex/infer/quant_network.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "calyrex/base/error.h"
#include "calyrex/infer/quant_weights.h"
#include "calyrex/kernels/tiled_attention.h"
#include "calyrex/weights/dequantize.h"

namespace calyrex::infer {
namespace {

using weights::DType;
using weights::TensorView;

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

bool is_block_type(DType dtype) { return weights::block_values(dtype) > 1; }

std::vector<const TensorView*> find_all(const weights::ModelSource& source, const std::string& prefix,
                                        std::initializer_list<const char*> names) {
  std::vector<const TensorView*> found;
  for (const char* name : names) {
    found.push_back(source.find(prefix + name));
    CALYREX_CHECK(found.back() != nullptr, "{} has no tensor {}{}", source.name(), prefix, name);
  }
  return found;
}

/// The matrices of the layers, and the head.
bool is_product(const TensorView& tensor, const weights::ModelConfig& config) {
  return tensor.shape.size() == 2 && (config.tied_head || tensor.name != kEmbedding);
}

}  // namespace

bool QuantNetwork::supports(const weights::ModelSource& source) {
  const weights::ModelConfig& config = source.config();
  int64_t quantised = 0, values = 0;
  for (const TensorView& tensor : source.tensors()) {
    if (!is_product(tensor, config)) continue;
    if (!weights::is_float_or_block(tensor.dtype)) return false;
    values += tensor.num_values();
    if (is_block_type(tensor.dtype)) quantised += tensor.num_values();
  }
  // A head in half precision beside quantised layers is usual; a model that is mostly not quantised stays so.
  return kernels::TiledAttention::fits({config.num_kv_heads, config.head_dim}, config.num_heads) &&
         2 * quantised > values;
}

QuantNetwork::QuantNetwork(std::shared_ptr<const weights::ModelSource> source)
    : source_(std::move(source)),
      arena_(std::make_shared<kernels::QuantArena>()),
      embedding_(source_->find(kEmbedding)),
      head_(pack_matrix(find_all(*source_, "", {config().tied_head ? kEmbedding : kHead}), arena_)),
      final_norm_(read_vector(find_all(*source_, "", {"model.norm.weight"}))),
      inverse_frequencies_(weights::inverse_frequencies(config())) {
  for (int64_t layer = 0; layer < config().num_layers; ++layer) layers_.push_back(load_layer(layer));
  std::map<DType, int64_t> values;
  for (const TensorView& tensor : source_->tensors()) values[tensor.dtype] += tensor.num_values();
  const auto most = std::ranges::max_element(values, {}, [](const auto& entry) { return entry.second; });
  weight_type_ = weights::dtype_name(most->first);
}

QuantLayer QuantNetwork::load_layer(int64_t layer) const {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const auto matrix = [&](std::initializer_list<const char*> names) {
    return pack_matrix(find_all(*source_, prefix, names), arena_);
  };
  const auto vector = [&](std::initializer_list<const char*> names) {
    return read_vector(find_all(*source_, prefix, names));
  };
  QuantLayer weights;
  weights.norm = vector({"input_layernorm.weight"});
  weights.qkv = matrix({"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"});
  if (config().attention_bias) {
    weights.qkv_bias = vector({"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"});
  }
  if (config().qk_norm) {
    weights.q_norm = vector({"self_attn.q_norm.weight"});
    weights.k_norm = vector({"self_attn.k_norm.weight"});
  }
  weights.o = matrix({"self_attn.o_proj.weight"});
  weights.mlp.norm = vector({"post_attention_layernorm.weight"});
  weights.mlp.norm_eps = static_cast<float>(config().rms_norm_eps);
  weights.mlp.gate_up = matrix({"mlp.gate_proj.weight", "mlp.up_proj.weight"});
  weights.mlp.down = matrix({"mlp.down_proj.weight"});
  return weights;
}

std::shared_ptr<const QuantNetwork> QuantNetwork::load(std::shared_ptr<const weights::ModelSource> source) {
  return with_context(fmt::format("loading {}", source->name()), [&] {
    return std::shared_ptr<const QuantNetwork>(new QuantNetwork(std::move(source)));
  });
}

void QuantNetwork::embed(TokenId id, std::span<float> out) const {
  weights::read_rows_as_float(*embedding_, id, id + 1, out);
}

}  // namespace calyrex::infer
