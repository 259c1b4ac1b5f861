#include <algorithm>
#include <array>

#include "calyrex/base/error.h"
#include "calyrex/base/log.h"
#include "calyrex/weights/adapter_folder.h"
#include "calyrex/weights/printable.h"

namespace calyrex::weights {
namespace {

constexpr std::string_view kFormat = "calyrex-adapter";
constexpr int64_t kVersion = 1;
constexpr int64_t kMaxLayers = 1 << 12;
constexpr int64_t kMaxHeads = 1 << 16;
constexpr int64_t kMaxWidth = 1 << 24;

constexpr std::array<std::string_view, 11> kTopKeys = {"format",       "version",  "kind",
                                                       "placement",    "base",     "cal",
                                                       "parallel_mlp", "span",     "base_model_name_or_path",
                                                       "peft_type",    "chat_date"};
constexpr std::array<std::string_view, 6> kCompanionKeys = {"format", "version", "kind",
                                                            "base",   "span",    "chat_date"};
constexpr std::array<std::string_view, 5> kBaseKeys = {"model_type", "hidden_size", "num_hidden_layers",
                                                       "vocab_size", "norms_sha256"};

template <size_t N>
void log_unknown_keys(const Json& object, std::string_view source,
                      const std::array<std::string_view, N>& known) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      log_debug("{}: key '{}' is not used", source, printable(key));
    }
  }
}

const Json& section(const Json& json, std::string_view key, std::string_view source) {
  static const Json empty = Json::object();
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return empty;
  if (!found->is_object()) fail(ErrorCode::kCorruptData, "{}: \"{}\" must be an object", source, key);
  return *found;
}

/// Reads a section whose every key counts; null means absent. What is wrong in it is a damaged file here, not
/// usage.
template <typename T>
void read_section(const Json& json, std::string_view key, std::string_view source, T& value) {
  Json present = Json::object();
  for (const auto& [name, entry] : section(json, key, source).items()) {
    if (entry.is_number() && entry < 0) {
      fail(ErrorCode::kCorruptData, "{}: \"{}.{}\": {} is out of range", source, key, name,
           to_json_line(entry));
    }
    if (!entry.is_null()) present[name] = entry;
  }
  try {
    read_fields(config_from_json(present, fmt::format("{}: {}", source, key)), value);
  } catch (const Error& error) {
    throw Error(ErrorCode::kCorruptData, error.what());
  }
}

void check_format(const Json& json, std::string_view source) {
  const auto format = json.find("format");
  if (format == json.end()) {
    fail(ErrorCode::kCorruptData, "{}: key \"format\" is missing; no adapter of this program", source);
  }
  if (*format != kFormat) {
    fail(ErrorCode::kUnsupported, "{}: format {} is unknown; this program reads \"{}\"", source,
         printable(to_json_line(*format)), kFormat);
  }
  const Json version = json.value("version", Json());
  if (version != kVersion) {
    fail(ErrorCode::kUnsupported, "{}: version {} of the format; this program reads version {}", source,
         printable(to_json_line(version)), kVersion);
  }
}

AdapterKind read_kind(const Json& json, std::string_view source) {
  const Json kind = json.value("kind", Json());
  if (!kind.is_string()) fail(ErrorCode::kCorruptData, "{}: key \"kind\" is missing or not text", source);
  for (const auto& entry : enum_names(AdapterKind{})) {
    // LoRA has PEFT's format.
    if (entry.name == kind.get<std::string>() && entry.value != AdapterKind::kLora) return entry.value;
  }
  fail(ErrorCode::kUnsupported, "{}: kind {} is unknown; cal and parallel_mlp can be read", source,
       printable(to_json_line(kind)));
}

int64_t read_size(const Json& object, std::string_view key, std::string_view source, int64_t max) {
  const auto found = object.find(key);
  if (found == object.end()) fail(ErrorCode::kCorruptData, "{}: key \"base.{}\" is missing", source, key);
  if (!found->is_number_integer() || found->get<int64_t>() < 1 || found->get<int64_t>() > max) {
    fail(ErrorCode::kCorruptData, "{}: \"base.{}\": {} is no size (1 to {})", source, key,
         printable(to_json_line(*found)), max);
  }
  return found->get<int64_t>();
}

std::optional<std::string> read_text(const Json& object, std::string_view key, std::string_view source) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (!found->is_string()) fail(ErrorCode::kCorruptData, "{}: key \"{}\" must be text", source, key);
  return found->get<std::string>();
}

BaseIdentity read_base(const Json& json, std::string_view source) {
  const Json& object = section(json, "base", source);
  log_unknown_keys(object, source, kBaseKeys);
  BaseIdentity base;
  base.model_type = read_text(object, "model_type", source).value_or("");
  base.hidden_size = read_size(object, "hidden_size", source, kMaxWidth);
  base.num_hidden_layers = read_size(object, "num_hidden_layers", source, kMaxLayers);
  if (object.contains("vocab_size")) base.vocab_size = read_size(object, "vocab_size", source, kMaxWidth);
  base.norms_sha256 = read_text(object, "norms_sha256", source);
  return base;
}

std::vector<int64_t> read_placement(const Json& json, std::string_view source, int64_t num_layers) {
  const auto found = json.find("placement");
  if (found == json.end() || !found->is_array() || found->empty()) {
    fail(ErrorCode::kCorruptData, "{}: key \"placement\" must be a list of layers", source);
  }
  std::vector<int64_t> placement;
  for (const Json& layer : *found) {
    const bool valid =
        layer.is_number_integer() && layer.get<int64_t>() >= 0 && layer.get<int64_t>() < num_layers;
    if (!valid) {
      fail(ErrorCode::kCorruptData, "{}: \"placement\": {} is no layer of a backbone with {}", source,
           printable(to_json_line(layer)), num_layers);
    }
    placement.push_back(layer.get<int64_t>());
  }
  std::sort(placement.begin(), placement.end());
  if (std::adjacent_find(placement.begin(), placement.end()) != placement.end()) {
    fail(ErrorCode::kCorruptData, "{}: \"placement\" names a layer twice", source);
  }
  return placement;
}

/// Bounds the sizes that are known; those left to the backbone are checked with it.
void check_sizes(const AdapterConfig& config, std::string_view source) {
  const auto check = [&](std::string_view key, int64_t value, int64_t min, int64_t max) {
    if (value != kAsBackbone && (value < min || value > max)) {
      fail(ErrorCode::kCorruptData, "{}: \"{}.{}\": {} is out of range ({} to {})", source,
           to_string(config.kind), key, value, min, max);
    }
  };
  if (config.kind == AdapterKind::kLora || config.kind == AdapterKind::kFull) return;
  const bool cal = config.kind == AdapterKind::kCal;
  const double eps = cal ? config.cal.rms_norm_eps : config.parallel_mlp.rms_norm_eps;
  if (eps != kAsBackbone && !(eps > 0 && eps < 1)) {
    fail(ErrorCode::kCorruptData, "{}: \"rms_norm_eps\": {} is out of range", source, eps);
  }
  if (!cal) return check("intermediate_size", config.parallel_mlp.intermediate_size, 1, kMaxWidth);
  check("num_heads", config.cal.num_heads, 1, kMaxHeads);
  check("num_kv_heads", config.cal.num_kv_heads, 1, kMaxHeads);
  check("head_dim", config.cal.head_dim, 1, kMaxHeads);
  check("intermediate_size", config.cal.intermediate_size, 0, kMaxWidth);
  const bool known = config.cal.num_heads != kAsBackbone && config.cal.num_kv_heads != kAsBackbone;
  if (known && config.cal.num_heads % config.cal.num_kv_heads != 0) {
    fail(ErrorCode::kCorruptData, "{}: \"cal.num_heads\" {} is no multiple of \"cal.num_kv_heads\" {}",
         source, config.cal.num_heads, config.cal.num_kv_heads);
  }
  if (config.cal.position == CalPosition::kRope && config.cal.head_dim != kAsBackbone &&
      config.cal.head_dim % 2 != 0) {
    fail(ErrorCode::kCorruptData, "{}: \"cal.head_dim\" {} is odd; position rope needs an even one", source,
         config.cal.head_dim);
  }
}

Json base_to_json(const BaseIdentity& base) {
  Json json = write_fields(base);
  if (!base.norms_sha256) json.erase("norms_sha256");
  return json;
}

/// The role stands in the file only where it is not the usual one.
Json span_to_json(const SpanConfig& span) {
  Json json = write_fields(span);
  if (span.role == SpanRole::kSystem) json.erase("role");
  return json;
}

Json lora_companion_to_json(const AdapterConfig& config) {
  Json json = {{"format", kFormat}, {"version", kVersion}, {"kind", to_string(config.kind)}};
  json["base"] = base_to_json(config.base);
  json["span"] = span_to_json(config.span);
  if (config.chat_date) json["chat_date"] = *config.chat_date;
  return json;
}

/// Kinds that change the layers themselves: what they change is a list of the backbone's own parts.
AdapterConfig resolve_inside_layers(AdapterConfig config, const ModelConfig& backbone) {
  config.placement.clear();
  if (config.kind == AdapterKind::kFull) {
    config.full_tensors = expected_tensors(backbone);
    for (int64_t layer = 0; layer < backbone.num_layers; ++layer) config.placement.push_back(layer);
    return config;
  }
  config.lora_modules = lora_modules(config.lora, backbone);
  for (const LoraModule& module : config.lora_modules) {
    if (config.placement.empty() || config.placement.back() != module.layer)
      config.placement.push_back(module.layer);
  }
  return config;
}

}  // namespace

AdapterConfig parse_adapter_config(const Json& json, std::string_view source) {
  if (!json.is_object()) fail(ErrorCode::kCorruptData, "{}: not a JSON object", source);
  AdapterConfig config;
  if (is_peft_config(json)) {
    config.kind = AdapterKind::kLora;
    config.lora = parse_peft_config(json, source);
    config.base_model_name_or_path = read_text(json, "base_model_name_or_path", source).value_or("");
    return config;
  }
  check_format(json, source);
  log_unknown_keys(json, source, kTopKeys);
  config.kind = read_kind(json, source);
  config.base = read_base(json, source);
  config.placement = read_placement(json, source, config.base.num_hidden_layers);
  if (config.kind == AdapterKind::kCal) read_section(json, "cal", source, config.cal);
  if (config.kind == AdapterKind::kParallelMlp)
    read_section(json, "parallel_mlp", source, config.parallel_mlp);
  read_section(json, "span", source, config.span);
  config.base_model_name_or_path = read_text(json, "base_model_name_or_path", source).value_or("");
  config.chat_date = read_text(json, "chat_date", source);
  check_sizes(config, source);
  return config;
}

void read_lora_companion(const Json& json, std::string_view source, AdapterConfig& config) {
  if (!json.is_object()) fail(ErrorCode::kCorruptData, "{}: not a JSON object", source);
  check_format(json, source);
  log_unknown_keys(json, source, kCompanionKeys);
  config.base = read_base(json, source);
  read_section(json, "span", source, config.span);
  config.chat_date = read_text(json, "chat_date", source);
}

Json adapter_section_to_json(const AdapterConfig& config) {
  switch (config.kind) {
    case AdapterKind::kCal:
      return write_fields(config.cal);
    case AdapterKind::kParallelMlp:
      return write_fields(config.parallel_mlp);
    case AdapterKind::kFull:
      return Json::object();
    case AdapterKind::kLora:
      break;
  }
  const Json peft = peft_config_to_json(config.lora, "");
  return {{"rank", peft["r"]},
          {"alpha", peft["lora_alpha"]},
          {"dropout", peft["lora_dropout"]},
          {"target_modules", peft["target_modules"]},
          {"use_rslora", peft["use_rslora"]},
          {"layers", config.lora.layers.empty() ? Json("all") : Json(config.lora.layers)},
          {"rank_pattern", peft["rank_pattern"]},
          {"alpha_pattern", peft["alpha_pattern"]}};
}

std::vector<std::pair<std::string, std::string>> adapter_config_files(const AdapterConfig& config) {
  std::vector<std::pair<std::string, std::string>> files;
  if (config.kind == AdapterKind::kLora) {
    files.emplace_back("calyrex.json", to_json_text(lora_companion_to_json(config)));
  }
  files.emplace_back("adapter_config.json", to_json_text(adapter_config_to_json(config)));
  return files;
}

Json adapter_config_to_json(const AdapterConfig& config) {
  if (config.kind == AdapterKind::kLora)
    return peft_config_to_json(config.lora, config.base_model_name_or_path);
  CALYREX_CHECK(is_resolved(config));
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"kind", to_string(config.kind)},
               {"placement", config.placement},
               {"base", base_to_json(config.base)}};
  if (config.kind != AdapterKind::kFull) {
    json[std::string(to_string(config.kind))] = adapter_section_to_json(config);
  }
  json["span"] = span_to_json(config.span);
  json["base_model_name_or_path"] = config.base_model_name_or_path;
  if (config.chat_date) json["chat_date"] = *config.chat_date;
  json["peft_type"] = "CALYREX";
  return json;
}

bool is_resolved(const AdapterConfig& config) {
  if (config.kind == AdapterKind::kLora) return !config.lora_modules.empty();
  if (config.kind == AdapterKind::kFull) return !config.full_tensors.empty();
  if (config.kind == AdapterKind::kParallelMlp) {
    return config.parallel_mlp.intermediate_size != kAsBackbone &&
           config.parallel_mlp.rms_norm_eps != kAsBackbone;
  }
  const CalConfig& cal = config.cal;
  return cal.num_heads != kAsBackbone && cal.num_kv_heads != kAsBackbone && cal.head_dim != kAsBackbone &&
         cal.intermediate_size != kAsBackbone && cal.rms_norm_eps != kAsBackbone;
}

AdapterConfig resolve_adapter_config(AdapterConfig config, const ModelConfig& backbone,
                                     std::string_view source) {
  if (config.kind == AdapterKind::kLora || config.kind == AdapterKind::kFull) {
    return resolve_inside_layers(std::move(config), backbone);
  }
  const auto fill = [](auto& value, auto from_backbone) {
    if (value == kAsBackbone) value = from_backbone;
  };
  fill(config.cal.num_heads, backbone.num_heads);
  fill(config.cal.num_kv_heads, backbone.num_kv_heads);
  fill(config.cal.head_dim, backbone.head_dim);
  fill(config.cal.intermediate_size, backbone.intermediate_size);
  fill(config.cal.rms_norm_eps, backbone.rms_norm_eps);
  fill(config.parallel_mlp.intermediate_size, backbone.intermediate_size);
  fill(config.parallel_mlp.rms_norm_eps, backbone.rms_norm_eps);
  check_sizes(config, source);
  return config;
}

std::vector<ExpectedTensor> expected_adapter_tensors(const AdapterConfig& config) {
  CALYREX_CHECK(is_resolved(config));
  if (config.kind == AdapterKind::kLora) return lora_tensors(config.lora_modules);
  if (config.kind == AdapterKind::kFull) return config.full_tensors;
  const int64_t hidden = config.base.hidden_size;
  const bool has_attention = config.kind == AdapterKind::kCal;
  const int64_t inner = has_attention ? config.cal.intermediate_size : config.parallel_mlp.intermediate_size;
  const int64_t q_rows = config.cal.num_heads * config.cal.head_dim;
  const int64_t kv_rows = config.cal.num_kv_heads * config.cal.head_dim;
  std::vector<ExpectedTensor> expected;
  for (const int64_t layer : config.placement) {
    const auto add = [&](std::string_view name, std::vector<int64_t> shape) {
      expected.push_back({fmt::format("blocks.{}.{}", layer, name), std::move(shape)});
    };
    if (has_attention) {
      add("attn_norm.weight", {hidden});
      add("attn.q_proj.weight", {q_rows, hidden});
      add("attn.k_proj.weight", {kv_rows, hidden});
      add("attn.v_proj.weight", {kv_rows, hidden});
      add("attn.o_proj.weight", {hidden, q_rows});
      if (config.cal.attention_bias) {
        add("attn.q_proj.bias", {q_rows});
        add("attn.k_proj.bias", {kv_rows});
        add("attn.v_proj.bias", {kv_rows});
      }
      if (config.cal.qk_norm) {
        add("attn.q_norm.weight", {config.cal.head_dim});
        add("attn.k_norm.weight", {config.cal.head_dim});
      }
    }
    if (inner > 0) {
      add("mlp_norm.weight", {hidden});
      add("mlp.gate_proj.weight", {inner, hidden});
      add("mlp.up_proj.weight", {inner, hidden});
      add("mlp.down_proj.weight", {hidden, inner});
    }
  }
  return expected;
}

int64_t count_parameters(const AdapterConfig& config) {
  int64_t total = 0;
  for (const ExpectedTensor& tensor : expected_adapter_tensors(config)) {
    int64_t values = 1;
    for (const int64_t size : tensor.shape) values *= size;
    total += values;
  }
  return total;
}

}  // namespace calyrex::weights
