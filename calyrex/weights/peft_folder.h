// LoRA (Hu et al., 2021) in PEFT's own files (https://github.com/huggingface/peft), both ways:
// adapter_config.json and the tensors base_model.model.MODULE.lora_{A,B}.weight.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/weights/model_config.h"
#include "calyrex/weights/model_source.h"
#include "calyrex/weights/tensor.h"

namespace calyrex::weights {

/// What PEFT's LoraConfig says, as far as it is known here. Names match a module like PEFT does: the whole
/// name
/// ("model.layers.0.mlp.up_proj") or its end behind a dot ("up_proj"). Of several patterns the first that
/// matches counts.
struct LoraConfig {
  int64_t rank = 8;
  double alpha = 8.0;
  double dropout = 0.0;
  bool use_rslora = false;
  std::vector<std::string> target_modules;
  std::vector<int64_t> layers;  // layers_to_transform; empty = all
  std::vector<std::pair<std::string, int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;

  bool operator==(const LoraConfig&) const = default;
};

/// One update of a linear layer: W + scale * B A, with A [rank, in] and B [out, rank].
struct LoraModule {
  std::string name;  // "model.layers.3.self_attn.q_proj"
  int64_t layer = 0;
  int64_t in = 0;
  int64_t out = 0;
  int64_t out_begin = 0;  // rows of the projections before it that read the same input (q, k, v; gate, up)
  int64_t rank = 0;
  double scale = 1.0;  // alpha / rank; alpha / sqrt(rank) with use_rslora

  int64_t num_parameters() const { return rank * (in + out); }
};

/// The seven projections of a layer: what `all-linear` means.
const std::vector<std::string>& all_linear_targets();

/// Whether the JSON is a configuration that PEFT wrote.
bool is_peft_config(const Json& json);

/// Reads and bounds a PEFT configuration. Whatever it asks for and this program lacks (another type, DoRA,
/// modules_to_save, biases, regular expressions, ...) is kUnsupported with the key's name.
LoraConfig parse_peft_config(const Json& json, std::string_view source);

/// The configuration as PEFT reads it.
Json peft_config_to_json(const LoraConfig& config, const std::string& base_model);

/// Whether a target or pattern names a module.
bool names_module(std::string_view pattern, std::string_view module);

/// The modules of a backbone that a configuration changes, layer by layer. None at all, or one outside the
/// layers (lm_head, embed_tokens), is kUnsupported.
std::vector<LoraModule> lora_modules(const LoraConfig& config, const ModelConfig& backbone);

/// Name and shape of the tensors of these modules.
std::vector<ExpectedTensor> lora_tensors(const std::vector<LoraModule>& modules);

/// Checks an adapter's tensors without its backbone: each belongs to a module of a layer, and A and B are
/// there with one rank. Returns the layers, ascending. kCorruptData naming all faults.
std::vector<int64_t> check_lora_tensors(std::string_view source, const std::vector<TensorView>& tensors);

}  // namespace calyrex::weights
