// Adapter folders: adapter_config.json + adapter_model.safetensors (+ chat_template.jinja, README.md,
// training.json).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/base/fields.h"
#include "calyrex/base/json.h"
#include "calyrex/weights/model_source.h"
#include "calyrex/weights/peft_folder.h"
#include "calyrex/weights/safetensors.h"

namespace calyrex::weights {

/// kFull is no adapter but the trained backbone itself, as checkpoints of a full fine-tune hold it.
enum class AdapterKind { kCal, kLora, kParallelMlp, kFull };
enum class CalPosition { kNone, kRope };
enum class SelfInclusion { kInclusive, kExclusive };
enum class MlpScope { kAll, kAnchored };
enum class MlpInput { kSerial, kParallel };
enum class SpanPart { kContent, kMessage };
enum class DefaultText { kIgnore, kAnchor };
enum class SpanRole { kSystem, kUser };

inline constexpr auto enum_names(AdapterKind) {
  return std::to_array<EnumName<AdapterKind>>({{AdapterKind::kCal, "cal"},
                                               {AdapterKind::kLora, "lora"},
                                               {AdapterKind::kParallelMlp, "parallel_mlp"},
                                               {AdapterKind::kFull, "full"}});
}
inline constexpr auto enum_names(CalPosition) {
  return std::to_array<EnumName<CalPosition>>({{CalPosition::kNone, "none"}, {CalPosition::kRope, "rope"}});
}
inline constexpr auto enum_names(SelfInclusion) {
  return std::to_array<EnumName<SelfInclusion>>(
      {{SelfInclusion::kInclusive, "inclusive"}, {SelfInclusion::kExclusive, "exclusive"}});
}
inline constexpr auto enum_names(MlpScope) {
  return std::to_array<EnumName<MlpScope>>({{MlpScope::kAll, "all"}, {MlpScope::kAnchored, "anchored"}});
}
inline constexpr auto enum_names(MlpInput) {
  return std::to_array<EnumName<MlpInput>>(
      {{MlpInput::kSerial, "serial"}, {MlpInput::kParallel, "parallel"}});
}
inline constexpr auto enum_names(SpanPart) {
  return std::to_array<EnumName<SpanPart>>(
      {{SpanPart::kContent, "content"}, {SpanPart::kMessage, "message"}});
}
inline constexpr auto enum_names(DefaultText) {
  return std::to_array<EnumName<DefaultText>>(
      {{DefaultText::kIgnore, "ignore"}, {DefaultText::kAnchor, "anchor"}});
}

inline constexpr auto enum_names(SpanRole) {
  return std::to_array<EnumName<SpanRole>>({{SpanRole::kSystem, "system"}, {SpanRole::kUser, "user"}});
}

/// Which tokens of a chat form the span.
struct SpanConfig {
  SpanPart part = SpanPart::kContent;
  DefaultText default_text = DefaultText::kIgnore;
  SpanRole role = SpanRole::kSystem;

  bool operator==(const SpanConfig&) const = default;
  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("part", part, "tokens of the system message that form the span");
    visit("default_text", default_text, "whether a system text the template writes by itself forms a span");
    visit("role", role, "whose messages form the span; user is a placebo, a control for studies");
  }
};

/// A size (or epsilon) that adapter_config.json leaves to the backbone, until resolve_adapter_config() fills
/// it in.
inline constexpr int64_t kAsBackbone = -1;

/// Shapes and choices of the blocks (PAPER's table of open questions).
struct CalConfig {
  int64_t num_heads = kAsBackbone;
  int64_t num_kv_heads = kAsBackbone;
  int64_t head_dim = kAsBackbone;
  int64_t intermediate_size = kAsBackbone;  // 0 = no MLP sublayer
  double rms_norm_eps = kAsBackbone;
  CalPosition position = CalPosition::kNone;
  SelfInclusion self_inclusion = SelfInclusion::kInclusive;
  MlpScope mlp_scope = MlpScope::kAll;
  bool attention_bias = false;
  bool qk_norm = false;

  bool operator==(const CalConfig&) const = default;
  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("num_heads", num_heads, "query heads of a block");
    visit("num_kv_heads", num_kv_heads, "key and value heads of a block");
    visit("head_dim", head_dim, "width of a head");
    visit("intermediate_size", intermediate_size, "width of the block's MLP; 0 leaves the MLP out");
    visit("rms_norm_eps", rms_norm_eps, "epsilon of the block's norms");
    visit("position", position, "positions in the cross-attention");
    visit("self_inclusion", self_inclusion, "whether a span token sees itself");
    visit("mlp_scope", mlp_scope, "whether the MLP runs on tokens that see no span");
    visit("attention_bias", attention_bias, "biases of q, k and v");
    visit("qk_norm", qk_norm, "RMSNorm on each head of q and k");
  }
};

struct ParallelMlpConfig {
  int64_t intermediate_size = kAsBackbone;
  double rms_norm_eps = kAsBackbone;
  MlpInput input = MlpInput::kSerial;
  MlpScope mlp_scope = MlpScope::kAll;

  bool operator==(const ParallelMlpConfig&) const = default;
  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("intermediate_size", intermediate_size, "width of the MLP");
    visit("rms_norm_eps", rms_norm_eps, "epsilon of the norm");
    visit("input", input, "reads the layer's output (serial) or its input (parallel)");
    visit("mlp_scope", mlp_scope, "whether the MLP runs on tokens that see no span");
  }
};

/// The backbone an adapter belongs to.
struct BaseIdentity {
  std::string model_type;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t vocab_size = 0;
  std::optional<std::string> norms_sha256;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("model_type", model_type, "family");
    visit("hidden_size", hidden_size, "width of the residual stream");
    visit("num_hidden_layers", num_hidden_layers, "layers");
    visit("vocab_size", vocab_size, "rows of the embedding");
    visit("norms_sha256", norms_sha256, "digest of the backbone's norms");
  }
};

/// What `adapter.base` says of a model, with its digest.
BaseIdentity base_identity(const ModelSource& model);

/// adapter_config.json, format "calyrex-adapter" version 1 (docs/adapter-files.md); of a LoRA adapter PEFT's
/// file and our calyrex.json beside it, which may be absent (`base.hidden_size` is 0 then).
struct AdapterConfig {
  AdapterKind kind = AdapterKind::kCal;
  std::vector<int64_t> placement;  // after these layers, 0-based, ascending; LoRA and full: within them
  BaseIdentity base;
  CalConfig cal;                             // kind kCal
  ParallelMlpConfig parallel_mlp;            // kind kParallelMlp
  LoraConfig lora;                           // kind kLora
  std::vector<LoraModule> lora_modules;      // kind kLora, filled in by resolve_adapter_config()
  std::vector<ExpectedTensor> full_tensors;  // kind kFull, likewise
  SpanConfig span;
  std::string base_model_name_or_path;
  std::optional<std::string> chat_date;  // fixed date for strftime_now, "2026-11-29"

  /// Of the kind; kAll where blocks have none.
  MlpScope mlp_scope() const {
    return kind == AdapterKind::kParallelMlp ? parallel_mlp.mlp_scope : cal.mlp_scope;
  }
};

/// Reads and bounds adapter_config.json. Absent keys take the defaults above; `format`, `version`, `kind`,
/// `placement` and the sizes in `base` are required. Unknown keys at the top and in `base` are left out
/// (debug log), elsewhere they are kCorruptData, as other kinds, formats and versions are kUnsupported.
AdapterConfig parse_adapter_config(const Json& json, std::string_view source);
/// adapter_config.json: the whole configuration, which must be resolved; PEFT's for LoRA.
Json adapter_config_to_json(const AdapterConfig& config);
/// The section that is named like the kind, {} for full; for people and for comparing.
Json adapter_section_to_json(const AdapterConfig& config);
/// Name and text of the configuration's files: adapter_config.json, and for LoRA calyrex.json before it.
std::vector<std::pair<std::string, std::string>> adapter_config_files(const AdapterConfig& config);
/// Takes over calyrex.json, which says of a LoRA adapter what PEFT's file has no place for.
void read_lora_companion(const Json& json, std::string_view source, AdapterConfig& config);

/// Whether no size is left to the backbone.
bool is_resolved(const AdapterConfig& config);
/// Fills in the sizes that are left to the backbone.
AdapterConfig resolve_adapter_config(
    AdapterConfig config, const ModelConfig& backbone,
    std::string_view source = "adapter_config.json with the backbone's sizes");

/// Name and shape of every tensor of a resolved adapter, block by block ("blocks.25.attn.q_proj.weight").
std::vector<ExpectedTensor> expected_adapter_tensors(const AdapterConfig& config);
int64_t count_parameters(const AdapterConfig& config);

/// An opened adapter. `content_sha256` covers configuration (but for base_model_name_or_path) and weights:
/// equal content, equal hash.
struct AdapterFolder {
  std::filesystem::path path;
  AdapterConfig config;
  std::shared_ptr<const SafetensorsFile> weights;
  std::optional<std::string> chat_template;
  std::string content_sha256;
};

/// Reads and checks a folder on its own (kNotFound, kCorruptData with all faults, kUnsupported for other
/// kinds). Sizes that the file leaves to the backbone stay so, and the tensors are then not compared with
/// them.
AdapterFolder open_adapter(const std::filesystem::path& path);

enum class BaseMismatch { kReject, kAllow };
/// The same for use with a backbone: the configuration is resolved and checked against it
/// (check_adapter_fits).
AdapterFolder open_adapter(const std::filesystem::path& path, const ModelSource& model,
                           BaseMismatch mismatch);

/// Checks an adapter against a backbone: another shape throws kCorruptData always, another norms_sha256
/// throws kCorruptData unless allowed; an absent digest is a warning. Families that compute alike (llama,
/// mistral) fit each other, since a GGUF file does not tell them apart.
void check_adapter_fits(const AdapterConfig& adapter, const ModelSource& model, BaseMismatch mismatch);

/// Placement presets of PAPER.md ("late8th", "all", "every-4th", ...) or "[25, 27]" for a model of
/// `num_layers`; ascending. Unknown: kInvalidArgument naming the nearest.
std::vector<int64_t> resolve_placement(const std::string& placement, int64_t num_layers);

/// Writes an adapter folder so that it opens as a whole or not at all; other files in an existing folder
/// stay. `extra` holds further files (name, text): chat_template.jinja, README.md, training.json.
void write_adapter(const std::filesystem::path& path, const AdapterConfig& config,
                   const std::vector<TensorToWrite>& tensors,
                   const std::vector<std::pair<std::string, std::string>>& extra);

}  // namespace calyrex::weights
