// Names of tensors in GGUF files of the architectures llama, qwen2 and qwen3.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace calyrex::weights {

/// Hugging Face name of a GGUF tensor ("blk.0.attn_q.weight" -> "model.layers.0.self_attn.q_proj.weight"), or
/// nothing when the name is not one of the network's.
std::optional<std::string> hugging_face_name(std::string_view gguf_name);

}  // namespace calyrex::weights
