// The shape of a backbone, read from a Hugging Face config.json or from GGUF metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"

namespace calyrex::weights {

enum class ModelFamily { kLlama, kMistral, kQwen2, kQwen3 };

/// config.json's model_type: "llama", "mistral", "qwen2", "qwen3".
std::string_view model_type(ModelFamily family);

/// Rotary embedding. `kLlama3` is Llama 3.1's frequency scaling (rope_type "llama3"); `kLinear` divides
/// positions; `kFactors` divides each frequency by a factor from the file (GGUF tensor rope_freqs.weight).
struct RopeConfig {
  enum class Scaling { kNone, kLinear, kLlama3, kFactors };
  double theta = 10000.0;
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_positions = 8192;
  std::vector<float> frequency_factors;  // [head_dim / 2] for kFactors
};

struct ModelConfig {
  ModelFamily family = ModelFamily::kLlama;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  double rms_norm_eps = 1e-5;
  RopeConfig rope;
  bool attention_bias = false;  // biases of q, k, v (Qwen2)
  bool qk_norm = false;         // RMSNorm on each head of q and k (Qwen3)
  bool tied_head = false;       // lm_head shares the embedding
};

/// Inverse frequencies, [head_dim / 2], with the scaling applied (transformers' ROPE_INIT_FUNCTIONS).
std::vector<float> inverse_frequencies(const ModelConfig& config);

/// Throws kCorruptData when a size is out of range or sizes contradict each other.
void check_model_config(const ModelConfig& config, std::string_view source);

/// Reads config.json of transformers 4 and 5 (rope_theta/rope_scaling, or rope_parameters). What it asks and
/// this program lacks (sliding window in use, yarn, MoE, partial rotary, other biases, other activations)
/// throws kUnsupported with the key's name. Sizes are bounded; inconsistent ones throw kCorruptData.
ModelConfig parse_hf_config(const Json& config, std::string_view source);

}  // namespace calyrex::weights
