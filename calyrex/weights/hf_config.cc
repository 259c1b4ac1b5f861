// config.json of Llama, Mistral, Qwen2 and Qwen3 as transformers 4 and 5 write it. Absent keys take the
// defaults of transformers' configuration classes.
#include <array>
#include <cmath>
#include <limits>

#include "calyrex/base/error.h"
#include "calyrex/weights/model_config.h"
#include "calyrex/weights/printable.h"

namespace calyrex::weights {
namespace {

struct FamilyDefaults {
  ModelFamily family;
  int64_t max_positions;
  int64_t num_kv_heads;                   // 0: as many as heads
  int64_t head_dim;                       // 0: hidden_size / num_heads
  std::optional<int64_t> sliding_window;  // when the key is absent
};

constexpr std::array kFamilies = {
    FamilyDefaults{ModelFamily::kLlama, 2048, 0, 0, std::nullopt},
    FamilyDefaults{ModelFamily::kMistral, 131072, 8, 0, 4096},
    FamilyDefaults{ModelFamily::kQwen2, 32768, 32, 0, std::nullopt},
    FamilyDefaults{ModelFamily::kQwen3, 32768, 32, 128, std::nullopt},
};

/// Typed access to one JSON object; a key with the value null counts as absent.
class Keys {
 public:
  Keys(const Json& object, std::string_view source, std::string prefix)
      : object_(object), source_(source), prefix_(std::move(prefix)) {}

  const Json* find(std::string_view key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  bool has_null(std::string_view key) const {
    const auto found = object_.find(key);
    return found != object_.end() && found->is_null();
  }

  std::optional<int64_t> find_int(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    // Some configurations write whole numbers as 8192.0.
    const double number =
        value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
    constexpr double kMax = 9e15;
    if (!(std::abs(number) <= kMax) || number != std::floor(number)) fail_type(key, "a whole number");
    return static_cast<int64_t>(number);
  }

  std::optional<double> find_number(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) fail_type(key, "a number");
    return value->get<double>();
  }

  bool flag(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) fail_type(key, "true or false");
    return value->get<bool>();
  }

  std::optional<std::string> find_text(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) fail_type(key, "text");
    return value->get<std::string>();
  }

  int64_t integer(std::string_view key) const {
    const std::optional<int64_t> value = find_int(key);
    if (!value) fail(ErrorCode::kCorruptData, "{}: key \"{}{}\" is missing", source_, prefix_, key);
    return *value;
  }

  double number(std::string_view key) const {
    const std::optional<double> value = find_number(key);
    if (!value) fail(ErrorCode::kCorruptData, "{}: key \"{}{}\" is missing", source_, prefix_, key);
    return *value;
  }

  [[noreturn]] void fail_unsupported(std::string_view key, std::string_view reason,
                                     const std::string& when_absent = "absent") const {
    const Json* value = find(key);
    const std::string shown = value == nullptr ? when_absent : printable(to_json_line(*value));
    fail(ErrorCode::kUnsupported, "{}: \"{}{}\": {} is not supported: {}", source_, prefix_, key, shown,
         reason);
  }

 private:
  [[noreturn]] void fail_type(std::string_view key, std::string_view expected) const {
    fail(ErrorCode::kCorruptData, "{}: key \"{}{}\" must be {}, not {}", source_, prefix_, key, expected,
         printable(to_json_line(object_[std::string(key)])));
  }

  const Json& object_;
  std::string source_;
  std::string prefix_;
};

const FamilyDefaults& find_family(const Keys& keys, std::string_view source) {
  const std::optional<std::string> name = keys.find_text("model_type");
  if (!name) fail(ErrorCode::kCorruptData, "{}: key \"model_type\" is missing", source);
  for (const FamilyDefaults& defaults : kFamilies) {
    if (model_type(defaults.family) == *name) return defaults;
  }
  keys.fail_unsupported("model_type", "the families are llama, mistral, qwen2 and qwen3");
}

void reject_unsupported(const Keys& keys, const FamilyDefaults& defaults) {
  if (keys.find("quantization_config") != nullptr) {
    keys.fail_unsupported("quantization_config", "use unquantised weights or a GGUF file");
  }
  for (const std::string_view key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (keys.find_int(key).value_or(0) > 0) keys.fail_unsupported(key, "mixture of experts");
  }
  // Qwen2 has q, k and v biases whatever the key says; elsewhere the key gives o_proj a bias too.
  if (defaults.family != ModelFamily::kQwen2 && keys.flag("attention_bias")) {
    keys.fail_unsupported("attention_bias", "it puts a bias on o_proj");
  }
  if (keys.flag("mlp_bias")) keys.fail_unsupported("mlp_bias", "MLP layers have no bias here");
  const std::string activation = keys.find_text("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") keys.fail_unsupported("hidden_act", "only silu is");
  if (keys.find_int("pretraining_tp").value_or(1) > 1) {
    keys.fail_unsupported("pretraining_tp", "tensor-parallel slices are not imitated");
  }
  if (keys.find_number("partial_rotary_factor").value_or(1.0) != 1.0) {
    keys.fail_unsupported("partial_rotary_factor", "all of a head is rotated");
  }
  if (keys.flag("use_mrope")) keys.fail_unsupported("use_mrope", "positions have one dimension here");
}

void reject_sliding_window(const Keys& keys, const FamilyDefaults& defaults, int64_t max_positions) {
  const std::string_view reason = "attention is never cut to a window here";
  if (keys.flag("use_sliding_window") && !keys.has_null("sliding_window")) {
    keys.fail_unsupported("use_sliding_window", reason);
  }
  if (const Json* types = keys.find("layer_types"); types != nullptr && types->is_array()) {
    for (const Json& type : *types) {
      if (type != "full_attention") keys.fail_unsupported("layer_types", reason);
    }
  }
  if (!defaults.sliding_window || keys.has_null("sliding_window")) return;
  const std::optional<int64_t> window = keys.find_int("sliding_window");
  if (window.value_or(*defaults.sliding_window) < max_positions) {
    keys.fail_unsupported("sliding_window", reason,
                          fmt::format("absent ({} by default)", *defaults.sliding_window));
  }
}

RopeConfig read_rope(const Keys& top, std::string_view source, int64_t max_positions) {
  constexpr double kDefaultTheta = 10000.0;
  RopeConfig rope;
  rope.theta = top.find_number("rope_theta").value_or(kDefaultTheta);
  const std::string_view name = top.find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
  const Json* object = top.find(name);
  if (object == nullptr) return rope;
  if (!object->is_object()) fail(ErrorCode::kCorruptData, "{}: key \"{}\" must be an object", source, name);
  const Keys keys(*object, source, fmt::format("{}.", name));
  rope.theta = keys.find_number("rope_theta").value_or(rope.theta);
  if (keys.find_number("partial_rotary_factor").value_or(1.0) != 1.0) {
    keys.fail_unsupported("partial_rotary_factor", "all of a head is rotated");
  }
  if (keys.find("mrope_section") != nullptr)
    keys.fail_unsupported("mrope_section", "positions have one dimension here");
  for (const auto& [key, value] : object->items()) {
    if (value.is_object()) keys.fail_unsupported(key, "all layers share one rotary embedding");
  }
  const std::string_view type_key = keys.find("rope_type") != nullptr ? "rope_type" : "type";
  const std::string type = keys.find_text(type_key).value_or("default");
  if (type == "linear") {
    rope.scaling = RopeConfig::Scaling::kLinear;
    rope.factor = keys.number("factor");
  } else if (type == "llama3") {
    rope.scaling = RopeConfig::Scaling::kLlama3;
    rope.factor = keys.number("factor");
    rope.low_freq_factor = keys.number("low_freq_factor");
    rope.high_freq_factor = keys.number("high_freq_factor");
    rope.original_max_positions = keys.find_int("original_max_position_embeddings").value_or(max_positions);
  } else if (type != "default") {
    keys.fail_unsupported(type_key, "rope types default, linear and llama3 are");
  }
  return rope;
}

}  // namespace

ModelConfig parse_hf_config(const Json& config, std::string_view source) {
  if (!config.is_object()) fail(ErrorCode::kCorruptData, "{}: not a JSON object", source);
  const Keys keys(config, source, "");
  const FamilyDefaults& defaults = find_family(keys, source);
  reject_unsupported(keys, defaults);
  ModelConfig result;
  result.family = defaults.family;
  result.hidden_size = keys.integer("hidden_size");
  result.intermediate_size = keys.integer("intermediate_size");
  result.num_layers = keys.integer("num_hidden_layers");
  result.num_heads = keys.integer("num_attention_heads");
  result.vocab_size = keys.integer("vocab_size");
  result.max_positions = keys.find_int("max_position_embeddings").value_or(defaults.max_positions);
  const bool own_kv_heads = defaults.num_kv_heads > 0 && !keys.has_null("num_key_value_heads");
  result.num_kv_heads =
      keys.find_int("num_key_value_heads").value_or(own_kv_heads ? defaults.num_kv_heads : result.num_heads);
  if (const std::optional<int64_t> head_dim = keys.find_int("head_dim")) {
    result.head_dim = *head_dim;
  } else if (defaults.head_dim > 0) {
    result.head_dim = defaults.head_dim;
  } else {
    if (result.num_heads < 1 || result.hidden_size % result.num_heads != 0) {
      fail(ErrorCode::kCorruptData, "{}: hidden_size {} is no multiple of num_attention_heads {}", source,
           result.hidden_size, result.num_heads);
    }
    result.head_dim = result.hidden_size / result.num_heads;
  }
  constexpr double kDefaultEps = 1e-6;
  result.rms_norm_eps = keys.find_number("rms_norm_eps").value_or(kDefaultEps);
  result.rope = read_rope(keys, source, result.max_positions);
  reject_sliding_window(keys, defaults, result.max_positions);
  result.attention_bias = defaults.family == ModelFamily::kQwen2;
  result.qk_norm = defaults.family == ModelFamily::kQwen3;
  result.tied_head = keys.flag("tie_word_embeddings");
  check_model_config(result, source);
  return result;
}

}  // namespace calyrex::weights
