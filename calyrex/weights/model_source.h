// A backbone on disk, whatever its format: a Hugging Face folder or a GGUF file (single or split). Gives the
// configuration, the tensors under Hugging Face names, and the files that tokenizer and template come from.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/base/token.h"
#include "calyrex/weights/model_config.h"
#include "calyrex/weights/tensor.h"

namespace calyrex::weights {

/// A tokenizer as GGUF metadata holds it.
struct GgufTokenizer {
  std::string model;  // tokenizer.ggml.model: "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre;    // tokenizer.ggml.pre, e.g. "smollm"
  std::vector<std::string> tokens;
  std::vector<float> scores;         // SentencePiece only
  std::vector<int32_t> token_types;  // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::vector<std::string> merges;
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
  std::optional<TokenId> bos_id, eos_id, unknown_id, pad_id;
};

/// What the text layer needs of a model. Exactly one of `tokenizer_json` and `gguf` is present.
struct TokenizerSource {
  std::optional<std::filesystem::path> tokenizer_json;
  Json tokenizer_config = Json::object();  // tokenizer_config.json (empty object when absent or GGUF)
  std::shared_ptr<const GgufTokenizer> gguf;
  std::optional<std::string> chat_template;  // chat_template.jinja, tokenizer_config.json's, or the GGUF's
  std::vector<TokenId> stop_ids;  // generation_config.json's eos_token_id(s), or the GGUF's eos/eot/eom
  std::string name;               // for messages: the model's path
};

/// Read-only; safe to share between threads. Holds the maps its views point into.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual const ModelConfig& config() const = 0;
  /// All tensors of the network under Hugging Face names ("model.layers.0.self_attn.q_proj.weight").
  virtual const std::vector<TensorView>& tensors() const = 0;
  virtual const TokenizerSource& tokenizer() const = 0;
  /// The path or name the user gave.
  virtual const std::string& name() const = 0;
  /// The Hugging Face folder that holds the model; none for GGUF.
  virtual std::optional<std::filesystem::path> folder() const { return std::nullopt; }
  /// "safetensors" or "gguf".
  virtual std::string_view format() const = 0;
  /// General facts for `model info`: file sizes, quantisation types, metadata.
  virtual Json describe() const = 0;

  const TensorView* find(std::string_view name) const;
};

/// Opens a model: a folder, a .gguf (any part of a split one), "org/name" (Hugging Face hub: cache, then
/// download), or "default" (the backbone that ./run fetches: .deps/models beside the program's build folder,
/// or CALYREX_DEFAULT_MODEL). Checks that all tensors the configuration asks for are there with the right
/// shapes and reports every fault at once (kCorruptData); unknown tensors are faults too, but for known
/// leftovers such as rotary_emb.inv_freq. Missing path: kNotFound. Unsupported type or key: kUnsupported.
std::shared_ptr<const ModelSource> open_model(const std::string& name);

/// The hub's name of the backbone that "default" stands for.
inline constexpr std::string_view kDefaultModelHubName = "HuggingFaceTB/SmolLM2-135M-Instruct";

/// Name and shape of every tensor a configuration asks for, in file order.
struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

/// SHA-256 of all RMSNorm vectors as little-endian float32: layer by layer (input, post-attention, then q and
/// k norm where present), final norm last. Equal for safetensors and any GGUF of the same model.
std::string norms_sha256(const ModelSource& model);

}  // namespace calyrex::weights
