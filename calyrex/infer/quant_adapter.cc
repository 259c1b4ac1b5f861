#include "calyrex/infer/quant_adapter.h"

#include <string>

#include <fmt/core.h>

#include "calyrex/base/error.h"
#include "calyrex/infer/quant_weights.h"
#include "calyrex/kernels/tiled_attention.h"

namespace calyrex::infer {
namespace {

using weights::TensorView;

/// Reads the tensors of one adapter.
class BlockReader {
 public:
  explicit BlockReader(const weights::AdapterFolder& folder)
      : folder_(folder), arena_(std::make_shared<kernels::QuantArena>()) {}

  QuantBlocks read(int64_t layer) const {
    const weights::AdapterConfig& config = folder_.config;
    const std::string prefix = fmt::format("blocks.{}.", layer);
    QuantBlocks block;
    if (config.kind == weights::AdapterKind::kCal) {
      block.attn_norm = vector(prefix, {"attn_norm.weight"});
      block.q = matrix(prefix, {"attn.q_proj.weight"});
      block.kv = matrix(prefix, {"attn.k_proj.weight", "attn.v_proj.weight"});
      block.o = matrix(prefix, {"attn.o_proj.weight"});
      if (config.cal.attention_bias) {
        block.q_bias = vector(prefix, {"attn.q_proj.bias"});
        block.kv_bias = vector(prefix, {"attn.k_proj.bias", "attn.v_proj.bias"});
      }
      if (config.cal.qk_norm) {
        block.q_norm = vector(prefix, {"attn.q_norm.weight"});
        block.k_norm = vector(prefix, {"attn.k_norm.weight"});
      }
      if (config.cal.intermediate_size == 0) return block;
    }
    block.mlp.norm = vector(prefix, {"mlp_norm.weight"});
    block.mlp.norm_eps =
        static_cast<float>(config.kind == weights::AdapterKind::kCal ? config.cal.rms_norm_eps
                                                                     : config.parallel_mlp.rms_norm_eps);
    block.mlp.gate_up = matrix(prefix, {"mlp.gate_proj.weight", "mlp.up_proj.weight"});
    block.mlp.down = matrix(prefix, {"mlp.down_proj.weight"});
    return block;
  }

 private:
  std::vector<const TensorView*> find(const std::string& prefix,
                                      std::initializer_list<const char*> names) const {
    std::vector<const TensorView*> found;
    for (const char* name : names) {
      found.push_back(folder_.weights->find(prefix + name));
      CALYREX_CHECK(found.back() != nullptr, "{}{}", prefix, name);
    }
    return found;
  }
  std::vector<float> vector(const std::string& prefix, std::initializer_list<const char*> names) const {
    return read_vector(find(prefix, names));
  }
  kernels::QuantMatrix matrix(const std::string& prefix, std::initializer_list<const char*> names) const {
    return pack_matrix(find(prefix, names), arena_);
  }

  const weights::AdapterFolder& folder_;
  std::shared_ptr<kernels::QuantArena> arena_;
};

}  // namespace

bool QuantAdapter::reads_layer_input() const {
  return config().kind == weights::AdapterKind::kParallelMlp &&
         config().parallel_mlp.input == weights::MlpInput::kParallel;
}

bool can_pack(const weights::AdapterConfig& config, const weights::ModelConfig& backbone) {
  if (config.kind == weights::AdapterKind::kCal) {
    const bool rotates = config.cal.position == weights::CalPosition::kRope;
    return kernels::TiledAttention::fits({config.cal.num_kv_heads, config.cal.head_dim},
                                         config.cal.num_heads) &&
           (!rotates || config.cal.head_dim == backbone.head_dim);
  }
  return config.kind == weights::AdapterKind::kParallelMlp;
}

std::shared_ptr<QuantAdapter> load_quant_adapter(const weights::AdapterFolder& folder, int64_t page_size) {
  auto adapter = std::make_shared<QuantAdapter>();
  adapter->folder = folder;
  const weights::AdapterConfig& config = folder.config;
  const BlockReader reader(folder);
  for (const int64_t layer : config.placement) adapter->blocks.emplace(layer, reader.read(layer));
  for (const TensorView& tensor : folder.weights->tensors()) adapter->parameters += tensor.num_values();
  if (config.kind == weights::AdapterKind::kCal) {
    adapter->spans = std::make_unique<SpanStore>(PagedCache::Shape{.layers = config.placement,
                                                                   .num_kv_heads = config.cal.num_kv_heads,
                                                                   .head_dim = config.cal.head_dim,
                                                                   .page_size = page_size},
                                                 at::kBFloat16, at::kCPU);
  }
  return adapter;
}

}  // namespace calyrex::infer
