#include "calyrex/weights/gguf_names.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

namespace calyrex::weights {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

constexpr std::array kTopNames = {
    NamePair{"token_embd", "model.embed_tokens"},
    NamePair{"output_norm", "model.norm"},
    NamePair{"output", "lm_head"},
};

constexpr std::array kLayerNames = {
    NamePair{"attn_norm", "input_layernorm"},    NamePair{"attn_q", "self_attn.q_proj"},
    NamePair{"attn_k", "self_attn.k_proj"},      NamePair{"attn_v", "self_attn.v_proj"},
    NamePair{"attn_output", "self_attn.o_proj"}, NamePair{"attn_q_norm", "self_attn.q_norm"},
    NamePair{"attn_k_norm", "self_attn.k_norm"}, NamePair{"ffn_norm", "post_attention_layernorm"},
    NamePair{"ffn_gate", "mlp.gate_proj"},       NamePair{"ffn_up", "mlp.up_proj"},
    NamePair{"ffn_down", "mlp.down_proj"},
};

template <size_t N>
std::optional<std::string_view> look_up(const std::array<NamePair, N>& names, std::string_view name) {
  for (const auto& [from, to] : names) {
    if (from == name) return to;
  }
  return std::nullopt;
}

bool is_layer_number(std::string_view text) {
  const bool digits =
      std::all_of(text.begin(), text.end(), [](char letter) { return letter >= '0' && letter <= '9'; });
  return digits && !text.empty() && (text == "0" || text.front() != '0');
}

}  // namespace

std::optional<std::string> hugging_face_name(std::string_view gguf_name) {
  const size_t last_dot = gguf_name.rfind('.');
  if (last_dot == std::string_view::npos) return std::nullopt;
  const std::string_view suffix = gguf_name.substr(last_dot);
  if (suffix != ".weight" && suffix != ".bias") return std::nullopt;
  std::string_view stem = gguf_name.substr(0, last_dot);
  constexpr std::string_view kBlock = "blk.";
  if (!stem.starts_with(kBlock)) {
    const std::optional<std::string_view> name = look_up(kTopNames, stem);
    return name ? std::optional(fmt::format("{}{}", *name, suffix)) : std::nullopt;
  }
  stem.remove_prefix(kBlock.size());
  const size_t dot = stem.find('.');
  if (dot == std::string_view::npos || !is_layer_number(stem.substr(0, dot))) return std::nullopt;
  const std::optional<std::string_view> name = look_up(kLayerNames, stem.substr(dot + 1));
  return name ? std::optional(fmt::format("model.layers.{}.{}{}", stem.substr(0, dot), *name, suffix))
              : std::nullopt;
}

}  // namespace calyrex::weights
