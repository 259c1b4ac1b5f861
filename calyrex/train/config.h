// The training configuration: one YAML file plus key=value overrides. The listing of fields below is the
// source of docs/configuration.md.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "calyrex/base/fields.h"
#include "calyrex/base/json.h"
#include "calyrex/weights/adapter_folder.h"

namespace calyrex::train {

/// What is trained: an adapter, or the backbone itself (full).
enum class TrainedKind { kCal, kLora, kParallelMlp, kFull };
enum class WeightInit { kNormal, kCopyBackbone };
enum class TooLong { kDrop };
enum class Labels { kAll, kLast };
enum class Objective { kSft, kDpo };
enum class ComputeDtype { kAuto, kFloat32, kBFloat16 };
enum class SaveDtype { kBFloat16, kFloat16, kFloat32 };
enum class ScheduleKind { kCosine, kLinear, kConstant };

inline constexpr auto enum_names(TrainedKind) {
  return std::to_array<EnumName<TrainedKind>>({{TrainedKind::kCal, "cal"},
                                               {TrainedKind::kLora, "lora"},
                                               {TrainedKind::kParallelMlp, "parallel_mlp"},
                                               {TrainedKind::kFull, "full"}});
}
inline constexpr auto enum_names(WeightInit) {
  return std::to_array<EnumName<WeightInit>>(
      {{WeightInit::kNormal, "normal"}, {WeightInit::kCopyBackbone, "copy_backbone"}});
}
inline constexpr auto enum_names(TooLong) {
  return std::to_array<EnumName<TooLong>>({{TooLong::kDrop, "drop"}});
}
inline constexpr auto enum_names(Labels) {
  return std::to_array<EnumName<Labels>>({{Labels::kAll, "all"}, {Labels::kLast, "last"}});
}
inline constexpr auto enum_names(Objective) {
  return std::to_array<EnumName<Objective>>({{Objective::kSft, "sft"}, {Objective::kDpo, "dpo"}});
}
inline constexpr auto enum_names(ComputeDtype) {
  return std::to_array<EnumName<ComputeDtype>>({{ComputeDtype::kAuto, "auto"},
                                                {ComputeDtype::kFloat32, "float32"},
                                                {ComputeDtype::kBFloat16, "bfloat16"},
                                                {ComputeDtype::kFloat32, "f32"},
                                                {ComputeDtype::kBFloat16, "bf16"}});
}
inline constexpr auto enum_names(SaveDtype) {
  return std::to_array<EnumName<SaveDtype>>({{SaveDtype::kBFloat16, "bf16"},
                                             {SaveDtype::kFloat16, "f16"},
                                             {SaveDtype::kFloat32, "f32"},
                                             {SaveDtype::kBFloat16, "bfloat16"},
                                             {SaveDtype::kFloat16, "float16"},
                                             {SaveDtype::kFloat32, "float32"}});
}
inline constexpr auto enum_names(ScheduleKind) {
  return std::to_array<EnumName<ScheduleKind>>({{ScheduleKind::kCosine, "cosine"},
                                                {ScheduleKind::kLinear, "linear"},
                                                {ScheduleKind::kConstant, "constant"}});
}

/// Shapes of new CAL blocks; what is absent is taken from the backbone.
struct CalSettings {
  std::optional<int64_t> num_heads;
  std::optional<int64_t> num_kv_heads;
  std::optional<int64_t> head_dim;
  std::optional<int64_t> intermediate_size;
  weights::CalPosition position = weights::CalPosition::kNone;
  weights::SelfInclusion self_inclusion = weights::SelfInclusion::kInclusive;
  weights::MlpScope mlp_scope = weights::MlpScope::kAll;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("num_heads", num_heads, "query heads of a block; null = as the backbone");
    visit("num_kv_heads", num_kv_heads, "key and value heads of a block; null = as the backbone");
    visit("head_dim", head_dim, "width of a head; null = as the backbone");
    visit("intermediate_size", intermediate_size,
          "width of the block's MLP; null = as the backbone, 0 leaves the MLP out");
    visit("position", position, "positions in the cross-attention");
    visit("self_inclusion", self_inclusion, "whether a span token sees itself");
    visit("mlp_scope", mlp_scope, "`anchored`: the block does nothing to tokens that see no span");
  }
};

struct LoraSettings {
  int64_t rank = 16;
  std::optional<double> alpha;
  double dropout = 0.0;
  Json target_modules = "all-linear";
  bool use_rslora = false;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("rank", rank, "rank of the updates");
    visit("alpha", alpha, "numerator of the updates' scale; null = the rank, so that the scale is 1");
    visit("dropout", dropout, "this version trains without dropout");
    visit("target_modules", target_modules,
          "`all-linear`, or a list of projections such as [q_proj, v_proj]");
    visit("use_rslora", use_rslora, "scale by alpha / sqrt(rank)");
  }
};

struct ParallelMlpSettings {
  std::optional<int64_t> intermediate_size;
  weights::MlpInput input = weights::MlpInput::kSerial;
  weights::MlpScope mlp_scope = weights::MlpScope::kAll;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("intermediate_size", intermediate_size, "width of the MLP; null = as the backbone");
    visit("input", input, "reads the layer's output or its input");
    visit("mlp_scope", mlp_scope, "`anchored`: only on tokens that see a span");
  }
};

struct AdapterSettings {
  TrainedKind kind = TrainedKind::kCal;
  Json placement = "late8th";
  Json match_params = nullptr;
  std::optional<std::string> init_from;
  WeightInit init = WeightInit::kNormal;
  double init_std = 0.02;
  CalSettings cal;
  LoraSettings lora;
  ParallelMlpSettings parallel_mlp;
  weights::SpanConfig span;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("kind", kind, "what is trained on the frozen backbone; `full` trains the backbone itself");
    visit("placement", placement,
          "layers that a block of cal or parallel_mlp follows: a preset, or a list of 0-based indices");
    visit("match_params", match_params,
          "another adapter, as {kind: cal, placement: late8th}: the rank or MLP width is chosen so that the "
          "number of parameters comes nearest to that one's");
    visit("init_from", init_from, "adapter folder to start from; null = a new adapter");
    visit("init", init,
          "weights of a new adapter; o_proj and down_proj always start at zero. LoRA's A is drawn as PEFT "
          "does, and "
          "its B starts at zero");
    visit("init_std", init_std, "standard deviation of `normal`");
    visit("cal", cal, "");
    visit("lora", lora, "");
    visit("parallel_mlp", parallel_mlp, "");
    visit("span", span, "");
  }
};

struct ChatSettings {
  std::optional<std::string> chat_template;
  Json kwargs = Json::object();
  std::optional<std::string> date;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("template", chat_template, "`chatml`, `llama3` or a template file; null = the model's own");
    visit("kwargs", kwargs, "variables for the template, e.g. {enable_thinking: false}");
    visit("date", date, "date that templates see, e.g. 2026-11-29; null = the day training starts");
  }
};

struct TrainFile {
  std::string path;
  double weight = 1.0;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("path", path, "JSONL file of chats");
    visit("weight", weight, "expected passes over the file in an epoch");
  }
};

struct EvalFile {
  std::string path;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("path", path, "JSONL file of chats");
  }
};

struct DataSettings {
  std::vector<TrainFile> train;
  std::vector<EvalFile> eval;
  int64_t max_tokens = 2048;
  TooLong too_long = TooLong::kDrop;
  Labels labels = Labels::kAll;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("train", train,
          "files to train on: a list of {path, weight}; weight = passes over the file in an epoch");
    visit("eval", eval, "files for the evaluation loss: a list of {path}");
    visit("max_tokens", max_tokens, "longest row; the model's context where that is shorter");
    visit("too_long", too_long, "what happens to longer rows: they are left out and counted");
    visit("labels", labels, "assistant messages that are learnt");
  }
};

struct TrainSettings {
  Objective objective = Objective::kSft;
  int64_t epochs = 1;
  std::optional<int64_t> max_steps;
  int64_t batch_tokens = 4096;
  std::optional<int64_t> batch_examples;
  std::optional<int64_t> micro_batch_tokens;
  bool shuffle = true;
  int64_t seed = 0;
  ComputeDtype dtype = ComputeDtype::kAuto;
  double learning_rate = 2e-4;
  std::optional<double> learning_rate_attn;
  std::optional<double> learning_rate_mlp;
  ScheduleKind schedule = ScheduleKind::kCosine;
  double warmup_ratio = 0.03;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;
  double grad_clip = 1.0;
  double prefix_cache_gib = 0.0;
  int64_t eval_every = 0;
  int64_t checkpoint_every = 500;
  int64_t keep_checkpoints = 2;
  SaveDtype save_dtype = SaveDtype::kBFloat16;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("objective", objective, "supervised fine-tuning is what this version trains");
    visit("epochs", epochs, "passes over the data");
    visit("max_steps", max_steps,
          "optimiser steps; replaces `epochs`, going over the data as often as needed");
    visit("batch_tokens", batch_tokens,
          "real tokens of one optimiser step, at most (a longer row makes its own step)");
    visit("batch_examples", batch_examples, "rows of one optimiser step; replaces `batch_tokens`");
    visit("micro_batch_tokens", micro_batch_tokens,
          "tokens that go through the network at once; null or auto = chosen from the model's size");
    visit("shuffle", shuffle, "new order in each epoch, drawn from the seed; false = order of the files");
    visit("seed", seed, "seed of the weights and of the order");
    visit("dtype", dtype,
          "operands of matrix products; auto = bfloat16 where the processor multiplies it well");
    visit("learning_rate", learning_rate, "peak learning rate");
    visit("learning_rate_attn", learning_rate_attn, "peak for attention and its norm; null = learning_rate");
    visit("learning_rate_mlp", learning_rate_mlp,
          "peak for the MLP and its norm (kind full: and all else); null = learning_rate");
    visit("schedule", schedule, "learning rate after the warm-up; cosine and linear end at zero");
    visit("warmup_ratio", warmup_ratio, "share of the steps in which the learning rate rises");
    visit("betas", betas, "AdamW: decay of the two moments");
    visit("eps", eps, "AdamW: added to the denominator");
    visit("weight_decay", weight_decay, "AdamW: decoupled weight decay, norms and biases excepted");
    visit("grad_clip", grad_clip, "largest norm of the whole gradient; 0 = no clipping");
    visit("prefix_cache_gib", prefix_cache_gib, "disk for the states below the first block, in GiB; 0 = off");
    visit("eval_every", eval_every, "steps between evaluation losses; 0 = never");
    visit("checkpoint_every", checkpoint_every, "steps between checkpoints; 0 = only when training stops");
    visit("keep_checkpoints", keep_checkpoints, "checkpoints kept, the newest ones");
    visit("save_dtype", save_dtype, "type of the tensors in the finished adapter");
  }
};

struct TrainConfig {
  std::string model = "default";
  AdapterSettings adapter;
  ChatSettings chat;
  DataSettings data;
  TrainSettings train;
  std::string output;

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("model", model, "folder, .gguf file, org/name, or `default`");
    visit("adapter", adapter, "");
    visit("chat", chat, "");
    visit("data", data, "");
    visit("train", train, "");
    visit("output", output, "folder of the adapter, its checkpoints and metrics.jsonl");
  }
};

/// A configuration as read, and the dotted keys that the user wrote ("train.seed"): a key that was written
/// wins over what `init_from` brings.
struct LoadedConfig {
  TrainConfig config;
  std::set<std::string> given;
};

/// Reads a file and applies overrides ("train.epochs=2"). Every value is checked for itself; errors are
/// kInvalidArgument (kUnsupported for what this version lacks) with place, key and what is expected.
LoadedConfig load_train_config(const std::filesystem::path& path, const std::vector<std::string>& overrides);
LoadedConfig parse_train_config(ConfigNode tree);

/// Adapter settings from "cal.intermediate_size=128" alone; the rest keeps its defaults.
AdapterSettings parse_adapter_settings(const std::vector<std::string>& assignments);

/// Text of a placement for weights::resolve_placement: "late8th", "[25,27]".
std::string placement_text(const Json& placement);

/// Configuration of new blocks for a backbone, with nothing left open. kInvalidArgument names the key at
/// fault.
weights::AdapterConfig make_adapter_config(const AdapterSettings& settings,
                                           const weights::ModelSource& model);

/// The page docs/configuration.md.
std::string document_train_config();

}  // namespace calyrex::train
