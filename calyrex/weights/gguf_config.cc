#include "calyrex/weights/gguf_config.h"

#include <algorithm>
#include <array>

#include "calyrex/base/error.h"
#include "calyrex/weights/printable.h"

namespace calyrex::weights {
namespace {

/// Reads `<arch>.<key>`.
class ArchitectureKeys {
 public:
  explicit ArchitectureKeys(const GgufFile& file)
      : file_(file), architecture_(file.string("general.architecture")) {}

  const std::string& architecture() const { return architecture_; }
  std::string full(std::string_view key) const { return fmt::format("{}.{}", architecture_, key); }
  int64_t integer(std::string_view key) const { return file_.integer(full(key)); }
  std::optional<int64_t> find_int(std::string_view key) const { return file_.find_int(full(key)); }
  std::optional<double> find_number(std::string_view key) const { return file_.find_number(full(key)); }
  const GgufFile& file() const { return file_; }

  /// A size that some architectures give layer by layer; only one for all is supported.
  std::optional<int64_t> find_uniform(std::string_view key) const {
    const std::vector<int64_t> values = file_.ints(full(key));
    if (values.empty()) return std::nullopt;
    for (const int64_t value : values) {
      if (value != values.front()) unsupported(full(key), "layers of different shapes");
    }
    return values.front();
  }

  [[noreturn]] void unsupported(std::string_view key, std::string_view reason) const {
    fail(ErrorCode::kUnsupported, "{}: metadata key {}: not supported: {}", file_.path().string(), key,
         reason);
  }

 private:
  const GgufFile& file_;
  std::string architecture_;
};

ModelFamily find_family(const ArchitectureKeys& keys) {
  for (const ModelFamily family : {ModelFamily::kLlama, ModelFamily::kQwen2, ModelFamily::kQwen3}) {
    if (model_type(family) == keys.architecture()) return family;
  }
  fail(ErrorCode::kUnsupported, "{}: general.architecture '{}' is not supported; llama, qwen2 and qwen3 are",
       keys.file().path().string(), printable(keys.architecture()));
}

/// Keys that change what the network computes and that this program does not follow.
void reject_unsupported(const ArchitectureKeys& keys, int64_t max_positions) {
  if (keys.find_int("expert_count").value_or(0) > 0)
    keys.unsupported(keys.full("expert_count"), "mixture of experts");
  const int64_t window = keys.find_int("attention.sliding_window").value_or(0);
  if (window > 0 && window < max_positions) {
    keys.unsupported(keys.full("attention.sliding_window"), "sliding-window attention");
  }
  if (!keys.file().find_bool(keys.full("attention.causal")).value_or(true)) {
    keys.unsupported(keys.full("attention.causal"), "attention that is not causal");
  }
  struct NeutralNumber {
    std::string_view key;
    double neutral;
  };
  constexpr std::array kNumbers = {
      NeutralNumber{"attention.scale", 0},          NeutralNumber{"attention.clamp_kqv", 0},
      NeutralNumber{"attention.max_alibi_bias", 0}, NeutralNumber{"attn_logit_softcapping", 0},
      NeutralNumber{"final_logit_softcapping", 0},  NeutralNumber{"logit_scale", 1},
      NeutralNumber{"residual_scale", 1},           NeutralNumber{"embedding_scale", 1},
      NeutralNumber{"rope.scaling.attn_factor", 1},
  };
  for (const NeutralNumber& number : kNumbers) {
    if (keys.find_number(number.key).value_or(number.neutral) != number.neutral) {
      keys.unsupported(keys.full(number.key), "a value other than the neutral one");
    }
  }
}

RopeConfig read_rope(const ArchitectureKeys& keys, int64_t head_dim) {
  constexpr double kDefaultTheta = 10000.0;
  RopeConfig rope;
  rope.theta = keys.find_number("rope.freq_base").value_or(kDefaultTheta);
  if (keys.find_int("rope.dimension_count").value_or(head_dim) != head_dim) {
    keys.unsupported(keys.full("rope.dimension_count"), "rotating a part of each head");
  }
  if (keys.file().has(keys.full("rope.dimension_sections"))) {
    keys.unsupported(keys.full("rope.dimension_sections"), "rotary embedding of several dimensions");
  }
  // Without a type, a factor means linear scaling; scale_linear is the key's old name.
  const std::string type = keys.file().find_string(keys.full("rope.scaling.type")).value_or("linear");
  if (type == "none") return rope;
  if (type != "linear") {
    keys.unsupported(keys.full("rope.scaling.type"), fmt::format("rope scaling '{}'", printable(type)));
  }
  double factor = keys.find_number("rope.scaling.factor").value_or(0);
  if (factor == 0) factor = keys.find_number("rope.scale_linear").value_or(0);
  if (factor != 0 && factor != 1) {
    rope.scaling = RopeConfig::Scaling::kLinear;
    rope.factor = factor;
  }
  return rope;
}

std::optional<TokenId> read_token_id(const GgufFile& file, const std::string& key, int64_t vocab_size) {
  const std::optional<int64_t> id = file.find_int(key);
  if (!id) return std::nullopt;
  if (*id < 0 || *id >= vocab_size) {
    file.fail_corrupt(fmt::format("metadata key {}: {} is no token id ({} tokens)", key, *id, vocab_size));
  }
  return static_cast<TokenId>(*id);
}

void check_tokenizer(const GgufFile& file, const GgufTokenizer& tokenizer, int64_t vocab_size) {
  const size_t count = tokenizer.tokens.size();
  if (count == 0) file.fail_corrupt("metadata key tokenizer.ggml.tokens is missing or empty");
  if (static_cast<int64_t>(count) > vocab_size) {
    file.fail_corrupt(fmt::format("{} tokens, but the embedding has {} rows", count, vocab_size));
  }
  if (!tokenizer.scores.empty() && tokenizer.scores.size() != count) {
    file.fail_corrupt(fmt::format("{} token scores for {} tokens", tokenizer.scores.size(), count));
  }
  if (!tokenizer.token_types.empty() && tokenizer.token_types.size() != count) {
    file.fail_corrupt(fmt::format("{} token types for {} tokens", tokenizer.token_types.size(), count));
  }
}

}  // namespace

ModelConfig read_gguf_config(const GgufFile& file, int64_t vocab_size) {
  const ArchitectureKeys keys(file);
  ModelConfig config;
  config.family = find_family(keys);
  config.hidden_size = keys.integer("embedding_length");
  config.num_layers = keys.integer("block_count");
  config.max_positions = keys.integer("context_length");
  config.intermediate_size = keys.find_uniform("feed_forward_length").value_or(0);
  config.num_heads = keys.find_uniform("attention.head_count").value_or(0);
  config.num_kv_heads = keys.find_uniform("attention.head_count_kv").value_or(config.num_heads);
  config.vocab_size = vocab_size;
  if (keys.find_int("vocab_size").value_or(vocab_size) != vocab_size) {
    file.fail_corrupt(fmt::format("metadata key {} is {}, but the embedding has {} rows",
                                  keys.full("vocab_size"), *keys.find_int("vocab_size"), vocab_size));
  }
  const int64_t derived = config.num_heads > 0 ? config.hidden_size / config.num_heads : 0;
  config.head_dim = keys.find_int("attention.key_length").value_or(derived);
  if (keys.find_int("attention.value_length").value_or(config.head_dim) != config.head_dim) {
    keys.unsupported(keys.full("attention.value_length"), "values of another length than keys");
  }
  config.rms_norm_eps = file.number(keys.full("attention.layer_norm_rms_epsilon"));
  config.rope = read_rope(keys, config.head_dim);
  config.attention_bias = config.family == ModelFamily::kQwen2;
  config.qk_norm = config.family == ModelFamily::kQwen3;
  check_model_config(config, file.path().string());
  reject_unsupported(keys, config.max_positions);
  return config;
}

TokenizerSource read_gguf_tokenizer(const GgufFile& file, const std::string& name, int64_t vocab_size) {
  auto tokenizer = std::make_shared<GgufTokenizer>();
  tokenizer->model = file.string("tokenizer.ggml.model");
  tokenizer->pre = file.find_string("tokenizer.ggml.pre").value_or("default");
  tokenizer->tokens = file.strings("tokenizer.ggml.tokens");
  tokenizer->scores = file.floats("tokenizer.ggml.scores");
  for (const int64_t type : file.ints("tokenizer.ggml.token_type")) {
    tokenizer->token_types.push_back(static_cast<int32_t>(type));
  }
  tokenizer->merges = file.strings("tokenizer.ggml.merges");
  check_tokenizer(file, *tokenizer, vocab_size);
  tokenizer->add_bos = file.find_bool("tokenizer.ggml.add_bos_token");
  tokenizer->add_eos = file.find_bool("tokenizer.ggml.add_eos_token");
  tokenizer->add_space_prefix = file.find_bool("tokenizer.ggml.add_space_prefix");
  const auto count = static_cast<int64_t>(tokenizer->tokens.size());
  tokenizer->bos_id = read_token_id(file, "tokenizer.ggml.bos_token_id", count);
  tokenizer->eos_id = read_token_id(file, "tokenizer.ggml.eos_token_id", count);
  tokenizer->unknown_id = read_token_id(file, "tokenizer.ggml.unknown_token_id", count);
  tokenizer->pad_id = read_token_id(file, "tokenizer.ggml.padding_token_id", count);

  TokenizerSource source;
  source.name = name;
  source.chat_template = file.find_string("tokenizer.chat_template");
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const std::optional<TokenId> id = read_token_id(file, key, count);
    if (id && std::find(source.stop_ids.begin(), source.stop_ids.end(), *id) == source.stop_ids.end()) {
      source.stop_ids.push_back(*id);
    }
  }
  source.gguf = std::move(tokenizer);
  return source;
}

}  // namespace calyrex::weights
