#include "calyrex/weights/model_source.h"

#include <algorithm>
#include <map>

#include "calyrex/base/error.h"
#include "calyrex/base/sha256.h"
#include "calyrex/weights/dequantize.h"
#include "calyrex/weights/printable.h"
#include "calyrex/weights/tensor_faults.h"

namespace calyrex::weights {

const TensorView* ModelSource::find(std::string_view name) const {
  for (const TensorView& tensor : tensors()) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  std::vector<ExpectedTensor> expected;
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  const int64_t q_rows = config.num_heads * config.head_dim;
  const int64_t kv_rows = config.num_kv_heads * config.head_dim;
  expected.push_back({"model.embed_tokens.weight", {config.vocab_size, hidden}});
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    const auto add = [&](std::string_view name, std::vector<int64_t> shape) {
      expected.push_back({fmt::format("model.layers.{}.{}", layer, name), std::move(shape)});
    };
    add("input_layernorm.weight", {hidden});
    add("self_attn.q_proj.weight", {q_rows, hidden});
    add("self_attn.k_proj.weight", {kv_rows, hidden});
    add("self_attn.v_proj.weight", {kv_rows, hidden});
    add("self_attn.o_proj.weight", {hidden, q_rows});
    if (config.attention_bias) {
      add("self_attn.q_proj.bias", {q_rows});
      add("self_attn.k_proj.bias", {kv_rows});
      add("self_attn.v_proj.bias", {kv_rows});
    }
    if (config.qk_norm) {
      add("self_attn.q_norm.weight", {config.head_dim});
      add("self_attn.k_norm.weight", {config.head_dim});
    }
    add("post_attention_layernorm.weight", {hidden});
    add("mlp.gate_proj.weight", {inner, hidden});
    add("mlp.up_proj.weight", {inner, hidden});
    add("mlp.down_proj.weight", {hidden, inner});
  }
  expected.push_back({"model.norm.weight", {hidden}});
  if (!config.tied_head) expected.push_back({"lm_head.weight", {config.vocab_size, hidden}});
  return expected;
}

std::vector<TensorView> match_tensors(std::string_view source, const std::vector<ExpectedTensor>& expected,
                                      std::vector<TensorView> found) {
  TensorFaults faults;
  std::map<std::string_view, TensorView*> by_name;
  for (TensorView& tensor : found) by_name.emplace(tensor.name, &tensor);
  std::vector<TensorView> result;
  result.reserve(expected.size());
  for (const ExpectedTensor& wanted : expected) {
    const auto entry = by_name.find(wanted.name);
    if (entry == by_name.end()) {
      faults.add("{} is missing", wanted.name);
      continue;
    }
    const TensorView& tensor = *entry->second;
    if (tensor.shape != wanted.shape) {
      faults.add("{} has shape {}, expected {}", wanted.name, shape_text(tensor.shape),
                 shape_text(wanted.shape));
    }
    if (!is_float_or_block(tensor.dtype)) {
      faults.add("{} has integer type {}", wanted.name, dtype_name(tensor.dtype));
    }
    result.push_back(tensor);
    by_name.erase(entry);
  }
  for (const TensorView& tensor : found) {
    if (by_name.contains(tensor.name)) faults.add("{} is unexpected", printable(tensor.name));
  }
  faults.throw_if_any(source);
  return result;
}

void TensorFaults::throw_if_any(std::string_view source) const {
  if (count_ == 0) return;
  const std::string more = count_ > kShown ? fmt::format("; and {} more", count_ - kShown) : "";
  fail(ErrorCode::kCorruptData, "{}: {} {} in its tensors: {}{}", source, count_,
       count_ == 1 ? "fault" : "faults", text_, more);
}

std::string norms_sha256(const ModelSource& model) {
  Sha256 hash;
  const auto add = [&](const std::string& name) {
    const TensorView* tensor = model.find(name);
    CALYREX_CHECK(tensor != nullptr, "{}", name);
    const std::vector<float> values = read_as_float(*tensor);
    hash.update(std::as_bytes(std::span(values)));
  };
  for (int64_t layer = 0; layer < model.config().num_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    add(prefix + "input_layernorm.weight");
    add(prefix + "post_attention_layernorm.weight");
    if (model.config().qk_norm) {
      add(prefix + "self_attn.q_norm.weight");
      add(prefix + "self_attn.k_norm.weight");
    }
  }
  add("model.norm.weight");
  return hash.hex_digest();
}

}  // namespace calyrex::weights
