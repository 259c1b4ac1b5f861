// The two formats that open_model() chooses between, and what they share.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::weights {

/// Opens a Hugging Face folder: config.json, model.safetensors or shards with model.safetensors.index.json,
/// tokenizer files. `name` is what the user gave.
std::shared_ptr<const ModelSource> open_hf_folder(const std::filesystem::path& folder,
                                                  const std::string& name);

/// Opens a GGUF file, or all parts of a split one when `path` is one of them (-00001-of-00003.gguf).
std::shared_ptr<const ModelSource> open_gguf_model(const std::filesystem::path& path,
                                                   const std::string& name);

/// Tensors, values and bytes by type: {"Q4_1": {"tensors": 210, "parameters": ..., "bytes": ...}, ...}.
Json describe_types(const std::vector<TensorView>& tensors);

}  // namespace calyrex::weights
