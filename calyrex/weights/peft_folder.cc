#include "calyrex/weights/peft_folder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/log.h"
#include "calyrex/weights/printable.h"
#include "calyrex/weights/tensor_faults.h"

namespace calyrex::weights {
namespace {

constexpr int64_t kMaxRank = 1 << 16;
constexpr int64_t kMaxLayers = 1 << 12;
constexpr size_t kMaxNames = 1 << 14;
constexpr std::string_view kTensorPrefix = "base_model.model.";

/// Keys that ask for something else than plain LoRA unless they are null, false or empty.
struct Refused {
  std::string_view key;
  std::string_view what;
};
constexpr std::array kRefused = {
    Refused{"use_dora", "DoRA"},
    Refused{"modules_to_save", "modules that are trained and saved whole"},
    Refused{"exclude_modules", "leaving modules out by name"},
    Refused{"layers_pattern", "a name of the list of layers"},
    Refused{"layer_replication", "repeated layers"},
    Refused{"trainable_token_indices", "trained rows of the embedding"},
    Refused{"target_parameters", "updates of bare parameters"},
    Refused{"lora_bias", "biases of the update"},
    Refused{"fan_in_fan_out", "weights stored as (in, out)"},
    Refused{"alora_invocation_tokens", "activated LoRA"},
    Refused{"use_qalora", "QALoRA"},
    Refused{"use_bdlora", "block-diagonal LoRA"},
    Refused{"arrow_config", "Arrow routing"},
    Refused{"kasa_config", "KaSA"},
    Refused{"monteclora_config", "MonteCLoRA"},
    Refused{"megatron_config", "Megatron layers"},
};

/// Keys that change nothing in what an adapter computes.
constexpr std::array<std::string_view, 26> kKnown = {"peft_type",
                                                     "task_type",
                                                     "peft_version",
                                                     "auto_mapping",
                                                     "base_model_name_or_path",
                                                     "revision",
                                                     "inference_mode",
                                                     "r",
                                                     "lora_alpha",
                                                     "lora_dropout",
                                                     "target_modules",
                                                     "rank_pattern",
                                                     "alpha_pattern",
                                                     "use_rslora",
                                                     "bias",
                                                     "init_lora_weights",
                                                     "layers_to_transform",
                                                     "loftq_config",
                                                     "eva_config",
                                                     "corda_config",
                                                     "lora_ga_config",
                                                     "megatron_core",
                                                     "qalora_group_size",
                                                     "ensure_weight_tying",
                                                     "velora_config",
                                                     "runtime_config"};

bool is_inert(const Json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         (value.is_structured() && value.empty());
}

/// Typed access to a PEFT configuration; null counts as absent.
struct Reader {
  const Json& json;
  std::string_view source;

  const Json* find(std::string_view key) const {
    const auto found = json.find(key);
    return found == json.end() || found->is_null() ? nullptr : &*found;
  }

  [[noreturn]] void unsupported(std::string_view key, std::string_view what) const {
    fail(ErrorCode::kUnsupported, "{}: \"{}\": {} is not supported ({})", source, key,
         printable(to_json_line(json.at(std::string(key)))), what);
  }

  [[noreturn]] void corrupt(std::string_view key, std::string_view expected) const {
    fail(ErrorCode::kCorruptData, "{}: key \"{}\" must be {}", source, key, expected);
  }

  int64_t rank(const Json& value, std::string_view key) const {
    if (!value.is_number_integer() || value < 1 || value > kMaxRank) {
      corrupt(key, fmt::format("a rank from 1 to {}", kMaxRank));
    }
    return value.get<int64_t>();
  }

  double alpha(const Json& value, std::string_view key) const {
    if (!value.is_number() || !std::isfinite(value.get<double>())) corrupt(key, "a number");
    return value.get<double>();
  }

  bool flag(std::string_view key) const {
    const Json* value = find(key);
    if (value != nullptr && !value->is_boolean()) corrupt(key, "true or false");
    return value != nullptr && value->get<bool>();
  }

  /// A name as PEFT writes it: plain, with dots escaped or not, from the start (^) or the end of a module's
  /// name.
  std::string plain_pattern(const std::string& pattern, std::string_view key) const {
    std::string plain;
    for (size_t i = 0; i < pattern.size(); ++i) {
      const char c = pattern[i];
      if (c == '\\' && i + 1 < pattern.size() && pattern[i + 1] == '.') continue;
      const bool wild =
          std::string_view("*+?[](){}|\\$").find(c) != std::string_view::npos || (c == '^' && i > 0);
      if (wild) {
        fail(ErrorCode::kUnsupported,
             "{}: \"{}\": regular expressions such as {} are not supported; name modules", source, key,
             printable(pattern));
      }
      plain.push_back(c);
    }
    if (plain.empty()) corrupt(key, "names of modules");
    return plain;
  }

  template <typename Value, typename Read>
  std::vector<std::pair<std::string, Value>> pattern(std::string_view key, const Read& read) const {
    std::vector<std::pair<std::string, Value>> pairs;
    const Json* value = find(key);
    if (value == nullptr) return pairs;
    if (!value->is_object() || value->size() > kMaxNames) corrupt(key, "an object of names and numbers");
    for (const auto& [name, entry] : value->items())
      pairs.emplace_back(plain_pattern(name, key), read(entry, key));
    return pairs;
  }

  std::vector<std::string> targets() const {
    const Json* value = find("target_modules");
    if (value == nullptr) corrupt("target_modules", "a list of module names");
    if (value->is_string()) {
      if (*value == "all-linear") return all_linear_targets();
      unsupported("target_modules", "a regular expression; give a list of module names, or all-linear");
    }
    if (!value->is_array() || value->empty() || value->size() > kMaxNames) {
      corrupt("target_modules", "a list of module names");
    }
    std::vector<std::string> names;
    for (const Json& name : *value) {
      if (!name.is_string() || name == "") corrupt("target_modules", "a list of module names");
      names.push_back(name.get<std::string>());
    }
    return names;
  }

  std::vector<int64_t> layers() const {
    const Json* value = find("layers_to_transform");
    if (value == nullptr) return {};
    std::set<int64_t> layers;
    for (const Json& layer : value->is_array() ? *value : Json::array({*value})) {
      if (!layer.is_number_integer() || layer < 0 || layer >= kMaxLayers) {
        corrupt("layers_to_transform", "a layer, or a list of layers");
      }
      layers.insert(layer.get<int64_t>());
    }
    return {layers.begin(), layers.end()};
  }
};

void refuse_what_is_lacking(const Reader& reader) {
  const Json& json = reader.json;
  for (const Refused& refused : kRefused) {
    if (const Json* value = reader.find(refused.key); value != nullptr && !is_inert(*value)) {
      reader.unsupported(refused.key, refused.what);
    }
  }
  if (const Json bias = json.value("bias", Json("none")); bias != "none" && !bias.is_null()) {
    reader.unsupported("bias", "trained biases");
  }
  if (const Json* task = reader.find("task_type"); task != nullptr && *task != "CAUSAL_LM") {
    reader.unsupported("task_type", "only CAUSAL_LM is");
  }
  // Other ways to begin change the backbone's weights too, and the file does not hold those.
  if (const Json* init = reader.find("init_lora_weights"); init != nullptr && init->is_string()) {
    constexpr std::array<std::string_view, 4> kHarmless = {"gaussian", "eva", "orthogonal", "mica"};
    if (std::find(kHarmless.begin(), kHarmless.end(), init->get<std::string>()) == kHarmless.end()) {
      reader.unsupported("init_lora_weights",
                         "it changes the backbone; convert the adapter to plain LoRA in PEFT");
    }
  }
  for (const auto& [key, value] : json.items()) {
    const auto is_key = [&](const Refused& refused) { return refused.key == key; };
    const bool known = std::find(kKnown.begin(), kKnown.end(), key) != kKnown.end() ||
                       std::find_if(kRefused.begin(), kRefused.end(), is_key) != kRefused.end();
    if (!known && !is_inert(value))
      log_warning("{}: key '{}' is unknown and not used", reader.source, printable(key));
  }
}

/// A linear of a layer: the name behind "model.layers.N.", the sizes of its weight, and
/// LoraModule::out_begin.
struct Linear {
  std::string_view name;
  int64_t out;
  int64_t in;
  int64_t out_begin = 0;
};

std::vector<Linear> layer_linears(const ModelConfig& model) {
  const int64_t hidden = model.hidden_size, inner = model.intermediate_size;
  const int64_t q_rows = model.num_heads * model.head_dim, kv_rows = model.num_kv_heads * model.head_dim;
  return {{"self_attn.q_proj", q_rows, hidden},
          {"self_attn.k_proj", kv_rows, hidden, q_rows},
          {"self_attn.v_proj", kv_rows, hidden, q_rows + kv_rows},
          {"self_attn.o_proj", hidden, q_rows},
          {"mlp.gate_proj", inner, hidden},
          {"mlp.up_proj", inner, hidden, inner},
          {"mlp.down_proj", hidden, inner}};
}

template <typename Value>
Value matching(const std::vector<std::pair<std::string, Value>>& pattern, std::string_view module,
               Value otherwise) {
  for (const auto& [name, value] : pattern) {
    if (names_module(name, module)) return value;
  }
  return otherwise;
}

bool targets(const LoraConfig& config, std::string_view module) {
  const auto names = [&](const std::string& target) { return names_module(target, module); };
  return std::any_of(config.target_modules.begin(), config.target_modules.end(), names);
}

/// "model.layers.3.mlp.up_proj" -> 3; nothing for other names.
std::optional<int64_t> layer_of(std::string_view module) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!module.starts_with(kLayers)) return std::nullopt;
  module.remove_prefix(kLayers.size());
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(module.data(), module.data() + module.size(), layer);
  const bool whole = error == std::errc() && end != module.data() + module.size() && *end == '.';
  return whole && layer >= 0 && layer < kMaxLayers ? std::optional(layer) : std::nullopt;
}

Json number(double value) {
  constexpr double kMaxExact = 9e15;
  const bool whole = value == std::floor(value) && std::abs(value) < kMaxExact;
  return whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

}  // namespace

const std::vector<std::string>& all_linear_targets() {
  static const std::vector<std::string> names = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                 "gate_proj", "up_proj", "down_proj"};
  return names;
}

bool is_peft_config(const Json& json) {
  return json.is_object() && !json.contains("format") && json.contains("peft_type");
}

LoraConfig parse_peft_config(const Json& json, std::string_view source) {
  if (json.value("peft_type", Json()) != "LORA") {
    fail(ErrorCode::kUnsupported, "{}: a PEFT adapter of type {}; of PEFT's types LORA can be read", source,
         printable(to_json_line(json.value("peft_type", Json()))));
  }
  const Reader reader{json, source};
  refuse_what_is_lacking(reader);
  LoraConfig config;
  if (const Json* rank = reader.find("r")) config.rank = reader.rank(*rank, "r");
  if (const Json* alpha = reader.find("lora_alpha")) config.alpha = reader.alpha(*alpha, "lora_alpha");
  if (const Json* dropout = reader.find("lora_dropout"))
    config.dropout = reader.alpha(*dropout, "lora_dropout");
  if (config.dropout < 0.0 || config.dropout >= 1.0) reader.corrupt("lora_dropout", "from 0 to below 1");
  config.use_rslora = reader.flag("use_rslora");
  config.target_modules = reader.targets();
  config.layers = reader.layers();
  config.rank_pattern = reader.pattern<int64_t>(
      "rank_pattern", [&](const Json& value, std::string_view key) { return reader.rank(value, key); });
  config.alpha_pattern = reader.pattern<double>(
      "alpha_pattern", [&](const Json& value, std::string_view key) { return reader.alpha(value, key); });
  return config;
}

Json peft_config_to_json(const LoraConfig& config, const std::string& base_model) {
  Json ranks = Json::object(), alphas = Json::object();
  for (const auto& [name, rank] : config.rank_pattern) ranks[name] = rank;
  for (const auto& [name, alpha] : config.alpha_pattern) alphas[name] = number(alpha);
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", base_model},
          {"inference_mode", true},
          {"r", config.rank},
          {"lora_alpha", number(config.alpha)},
          {"lora_dropout", config.dropout},
          {"use_rslora", config.use_rslora},
          {"target_modules", config.target_modules},
          {"layers_to_transform", config.layers.empty() ? Json(nullptr) : Json(config.layers)},
          {"rank_pattern", ranks},
          {"alpha_pattern", alphas},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"init_lora_weights", true},
          {"modules_to_save", nullptr}};
}

bool names_module(std::string_view pattern, std::string_view module) {
  if (pattern.starts_with('^')) return module == pattern.substr(1);
  if (!module.ends_with(pattern)) return false;
  return module.size() == pattern.size() || module[module.size() - pattern.size() - 1] == '.';
}

std::vector<LoraModule> lora_modules(const LoraConfig& config, const ModelConfig& backbone) {
  for (const std::string_view outside : {"lm_head", "model.embed_tokens"}) {
    if (targets(config, outside)) {
      fail(ErrorCode::kUnsupported, "LoRA on {} is not supported; the linear layers are {}", outside,
           fmt::join(all_linear_targets(), ", "));
    }
  }
  std::vector<LoraModule> modules;
  for (int64_t layer = 0; layer < backbone.num_layers; ++layer) {
    const bool chosen = config.layers.empty() ||
                        std::find(config.layers.begin(), config.layers.end(), layer) != config.layers.end();
    for (const Linear& linear : layer_linears(backbone)) {
      LoraModule module{.name = fmt::format("model.layers.{}.{}", layer, linear.name),
                        .layer = layer,
                        .in = linear.in,
                        .out = linear.out,
                        .out_begin = linear.out_begin};
      if (!chosen || !targets(config, module.name)) continue;
      module.rank = matching(config.rank_pattern, module.name, config.rank);
      const double alpha = matching(config.alpha_pattern, module.name, config.alpha);
      const auto rank = static_cast<double>(module.rank);
      module.scale = alpha / (config.use_rslora ? std::sqrt(rank) : rank);
      modules.push_back(std::move(module));
    }
  }
  if (modules.empty()) {
    fail(ErrorCode::kUnsupported, "target_modules ({}) names no linear layer of this model; they are {}",
         fmt::join(config.target_modules, ", "), fmt::join(all_linear_targets(), ", "));
  }
  return modules;
}

std::vector<ExpectedTensor> lora_tensors(const std::vector<LoraModule>& modules) {
  std::vector<ExpectedTensor> tensors;
  for (const LoraModule& module : modules) {
    tensors.push_back(
        {fmt::format("{}{}.lora_A.weight", kTensorPrefix, module.name), {module.rank, module.in}});
    tensors.push_back(
        {fmt::format("{}{}.lora_B.weight", kTensorPrefix, module.name), {module.out, module.rank}});
  }
  return tensors;
}

std::vector<int64_t> check_lora_tensors(std::string_view source, const std::vector<TensorView>& tensors) {
  TensorFaults faults;
  std::map<std::string_view, std::array<int64_t, 2>> ranks;  // of A and B; 0 = missing
  std::set<int64_t> layers;
  for (const TensorView& tensor : tensors) {
    std::string_view module = tensor.name;
    const bool is_a = module.ends_with(".lora_A.weight");
    const bool named = module.starts_with(kTensorPrefix) && (is_a || module.ends_with(".lora_B.weight"));
    if (named) {
      module.remove_prefix(kTensorPrefix.size());
      module.remove_suffix(std::string_view(".lora_A.weight").size());
    }
    const std::optional<int64_t> layer = named ? layer_of(module) : std::nullopt;
    if (!layer || tensor.shape.size() != 2) {
      faults.add("{} {} is no update of a linear layer", printable(tensor.name), shape_text(tensor.shape));
      continue;
    }
    layers.insert(*layer);
    ranks[module][is_a ? 0 : 1] = tensor.shape[is_a ? 0 : 1];
  }
  for (const auto& [module, pair] : ranks) {
    if (pair[0] == 0 || pair[1] == 0) {
      faults.add("{} lacks lora_{}", printable(std::string(module)), pair[0] == 0 ? "A" : "B");
    } else if (pair[0] != pair[1]) {
      faults.add("{} has rank {} in lora_A and {} in lora_B", printable(std::string(module)), pair[0],
                 pair[1]);
    }
  }
  if (tensors.empty()) faults.add("there are none");
  faults.throw_if_any(source);
  return {layers.begin(), layers.end()};
}

}  // namespace calyrex::weights
