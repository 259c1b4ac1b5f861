#include "calyrex/weights/model_folder.h"

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"

namespace calyrex::weights {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kConfigFile = "config.json";
constexpr std::string_view kWeightsFile = "model.safetensors";
constexpr size_t kMaxFileBytes = size_t{256} << 20;

std::string_view architecture(ModelFamily family) {
  switch (family) {
    case ModelFamily::kLlama:
      return "LlamaForCausalLM";
    case ModelFamily::kMistral:
      return "MistralForCausalLM";
    case ModelFamily::kQwen2:
      return "Qwen2ForCausalLM";
    case ModelFamily::kQwen3:
      return "Qwen3ForCausalLM";
  }
  return "?";
}

std::string_view torch_name(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    default:
      return "float32";
  }
}

Json rope_scaling(const RopeConfig& rope) {
  switch (rope.scaling) {
    case RopeConfig::Scaling::kNone:
      return nullptr;
    case RopeConfig::Scaling::kLinear:
      return {{"rope_type", "linear"}, {"factor", rope.factor}};
    case RopeConfig::Scaling::kLlama3:
      return {{"rope_type", "llama3"},
              {"factor", rope.factor},
              {"low_freq_factor", rope.low_freq_factor},
              {"high_freq_factor", rope.high_freq_factor},
              {"original_max_position_embeddings", rope.original_max_positions}};
    case RopeConfig::Scaling::kFactors:
      break;
  }
  fail(ErrorCode::kUnsupported,
       "a GGUF file with rope factors of its own has no form as config.json; begin from the model's "
       "safetensors");
}

/// The source's own configuration with the type of the new weights.
Json copied_config(const fs::path& folder, std::string_view dtype) {
  Json config = read_json_file(folder / kConfigFile);
  // transformers 5 reads dtype, older versions torch_dtype.
  const bool newer = config.contains("dtype");
  config[newer ? "dtype" : "torch_dtype"] = dtype;
  return config;
}

Json generation_config(const TokenizerSource& source) {
  Json config = Json::object();
  if (source.gguf && source.gguf->bos_id) config["bos_token_id"] = *source.gguf->bos_id;
  if (!source.stop_ids.empty()) config["eos_token_id"] = source.stop_ids;
  return config;
}

Json tokenizer_config(const TokenizerFiles& files) {
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"add_bos_token", files.adds_bos},
                 {"clean_up_tokenization_spaces", false}};
  if (files.bos_token) config["bos_token"] = *files.bos_token;
  if (files.eos_token) config["eos_token"] = *files.eos_token;
  return config;
}

}  // namespace

const std::vector<std::string>& model_folder_files() {
  static const std::vector<std::string> names = {"config.json",
                                                 "model.safetensors",
                                                 "generation_config.json",
                                                 "tokenizer.json",
                                                 "tokenizer_config.json",
                                                 "tokenizer.model",
                                                 "special_tokens_map.json",
                                                 "added_tokens.json",
                                                 "vocab.json",
                                                 "merges.txt",
                                                 "chat_template.jinja"};
  return names;
}

Json model_config_to_json(const ModelConfig& config, std::string_view dtype) {
  Json json = {{"architectures", {architecture(config.family)}},
               {"model_type", model_type(config.family)},
               {"hidden_size", config.hidden_size},
               {"intermediate_size", config.intermediate_size},
               {"num_hidden_layers", config.num_layers},
               {"num_attention_heads", config.num_heads},
               {"num_key_value_heads", config.num_kv_heads},
               {"head_dim", config.head_dim},
               {"vocab_size", config.vocab_size},
               {"max_position_embeddings", config.max_positions},
               {"rms_norm_eps", config.rms_norm_eps},
               {"rope_theta", config.rope.theta},
               {"rope_scaling", rope_scaling(config.rope)},
               {"hidden_act", "silu"},
               {"tie_word_embeddings", config.tied_head},
               {"torch_dtype", dtype}};
  if (config.family == ModelFamily::kMistral) json["sliding_window"] = nullptr;
  return json;
}

void check_writable_as_folder(const ModelSource& source) {
  if (!source.folder())
    with_context(source.name(), [&] { model_config_to_json(source.config(), "float32"); });
}

void write_model_folder(const fs::path& path, const ModelSource& source,
                        const std::vector<TensorToWrite>& tensors,
                        const std::optional<TokenizerFiles>& tokenizer, const std::string& chat_template,
                        const std::vector<std::pair<std::string, std::string>>& extra) {
  AtomicDirectory directory(path);
  const fs::path& staging = directory.staging();
  write_safetensors(staging / kWeightsFile, tensors, {{"format", "pt"}});
  const std::string_view dtype = torch_name(tensors.front().dtype);
  const auto write = [&](std::string_view name, std::string_view text) {
    write_file_atomically(staging / name, text);
  };
  Json config;
  if (const auto folder = source.folder()) {
    config = copied_config(*folder, dtype);
    for (const std::string& name : model_folder_files()) {
      if (name == kConfigFile || name == kWeightsFile || !path_exists(*folder / name)) continue;
      write(name, read_file(*folder / name, kMaxFileBytes));
    }
  } else {
    config = model_config_to_json(source.config(), dtype);
    if (tokenizer) {
      write("tokenizer.json", tokenizer->tokenizer_json);
      write("tokenizer_config.json", to_json_text(tokenizer_config(*tokenizer)));
    }
    write("generation_config.json", to_json_text(generation_config(source.tokenizer())));
  }
  if (!chat_template.empty()) write("chat_template.jinja", chat_template);
  for (const auto& [name, text] : extra) write(name, text);
  write(kConfigFile, to_json_text(config));
  directory.commit_files(kConfigFile);
}

}  // namespace calyrex::weights
