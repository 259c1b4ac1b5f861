// Writing a backbone as a Hugging Face model folder, which open_model() and transformers read.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/weights/model_source.h"
#include "calyrex/weights/safetensors.h"

namespace calyrex::weights {

/// A tokenizer as Hugging Face files, for a source that has none (GGUF).
struct TokenizerFiles {
  std::string tokenizer_json;
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  bool adds_bos = false;
};

/// config.json of a backbone; `dtype` as in "bfloat16". What config.json cannot express is kUnsupported.
Json model_config_to_json(const ModelConfig& config, std::string_view dtype);

/// Throws kUnsupported when a model like `source` cannot be written; for asking before a long run.
void check_writable_as_folder(const ModelSource& source);

/// Writes config.json, model.safetensors, generation_config.json, the tokenizer's files and
/// chat_template.jinja, so that the folder opens as a whole or not at all; other files in an existing folder
/// stay. From a Hugging Face folder the small files are copied; from GGUF they are made, with `tokenizer`.
/// `tensors` are all of the source's, of one type. `extra` holds further files (name, text).
void write_model_folder(const std::filesystem::path& path, const ModelSource& source,
                        const std::vector<TensorToWrite>& tensors,
                        const std::optional<TokenizerFiles>& tokenizer, const std::string& chat_template,
                        const std::vector<std::pair<std::string, std::string>>& extra);

/// Names of the files that write_model_folder() may write, config.json first.
const std::vector<std::string>& model_folder_files();

}  // namespace calyrex::weights
