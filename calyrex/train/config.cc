#include "calyrex/train/config.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "calyrex/base/log.h"
#include "calyrex/text/chat_encoder.h"
#include "calyrex/train/match_params.h"
#include "calyrex/weights/model_folder.h"

namespace calyrex::train {
namespace {

/// Finds "data.train[0].weight" in the tree; null when the user did not write it.
const ConfigNode* find_node(const ConfigNode& root, std::string_view key) {
  const ConfigNode* node = &root;
  while (node != nullptr && !key.empty()) {
    const size_t dot = key.find('.');
    std::string_view part = key.substr(0, dot);
    key = dot == std::string_view::npos ? std::string_view() : key.substr(dot + 1);
    const size_t bracket = part.find('[');
    node = node->find(part.substr(0, bracket));
    if (node != nullptr && bracket != std::string_view::npos) {
      const auto index = static_cast<size_t>(std::stoul(std::string(part.substr(bracket + 1))));
      node = index < node->items.size() ? &node->items[index] : nullptr;
    }
  }
  return node;
}

void collect_keys(const ConfigNode& node, const std::string& prefix, std::set<std::string>& keys) {
  for (const auto& [name, entry] : node.entries) {
    const std::string key = prefix.empty() ? name : fmt::format("{}.{}", prefix, name);
    if (entry.kind == ConfigNode::Kind::kMap) {
      collect_keys(entry, key, keys);
    } else if (!config_to_json(entry).is_null()) {
      keys.insert(key);
    }
  }
}

/// Checks values and names the place where the user wrote them.
struct Checker {
  const ConfigNode& root;

  std::string place(std::string_view key) const {
    const ConfigNode* node = find_node(root, key);
    return node != nullptr && !node->place.empty() ? node->place : root.place;
  }

  void require(bool holds, std::string_view key, std::string_view expected) const {
    if (holds) return;
    const ConfigNode* node = find_node(root, key);
    const std::string found =
        node == nullptr ? "" : fmt::format(", found {}", to_json_line(config_to_json(*node)));
    fail(ErrorCode::kInvalidArgument, "{}: '{}' must be {}{}", place(key), key, expected, found);
  }

  void range(double value, double low, double high, std::string_view key) const {
    require(value >= low && value <= high, key, fmt::format("between {} and {}", low, high));
  }

  [[noreturn]] void unsupported(std::string_view key, std::string_view what) const {
    fail(ErrorCode::kUnsupported, "{}: '{}' {}", place(key), key, what);
  }
};

constexpr double kMaxSize = 1 << 20;  // heads, widths
constexpr double kMaxRank = 1 << 16;
constexpr double kMaxCount = 1e12;      // steps, tokens, rows
constexpr double kMaxTokens = 1 << 24;  // of one row
constexpr double kMaxLearningRate = 10.0;

void check_lora(const Checker& check, const LoraSettings& lora) {
  check.range(static_cast<double>(lora.rank), 1, kMaxRank, "adapter.lora.rank");
  if (lora.alpha) {
    check.require(*lora.alpha > 0.0 && *lora.alpha <= 1e6, "adapter.lora.alpha",
                  "above 0 and at most 1000000");
  }
  check.range(lora.dropout, 0.0, 0.99, "adapter.lora.dropout");
  if (lora.dropout > 0.0) {
    check.unsupported("adapter.lora.dropout", "above 0 is not implemented in this version; leave it 0");
  }
  bool names =
      lora.target_modules == "all-linear" || (lora.target_modules.is_array() && !lora.target_modules.empty());
  if (lora.target_modules.is_array()) {
    for (const Json& name : lora.target_modules) names = names && name.is_string() && name != "";
  }
  check.require(names, "adapter.lora.target_modules", "all-linear, or a list such as [q_proj, v_proj]");
}

/// What contradicts the kind, or says the same thing twice.
void check_kind(const Checker& check, const AdapterSettings& adapter) {
  const bool lora = adapter.kind == TrainedKind::kLora, full = adapter.kind == TrainedKind::kFull;
  check.require(!(lora || full) || adapter.init == WeightInit::kNormal, "adapter.init",
                fmt::format("normal for kind {}", to_string(adapter.kind)));
  check.require(!full || !adapter.init_from, "adapter.init_from",
                "null for kind full; give the model to begin with as model");
  if (adapter.match_params.is_null()) return;
  constexpr std::string_view kMatch = "adapter.match_params";
  check.require(!full && !adapter.init_from, kMatch, "null for kind full and with adapter.init_from");
  const auto open = [&](bool is_open, std::string_view key) {
    check.require(is_open, key, "left out beside adapter.match_params, which chooses it");
  };
  if (lora) open(adapter.lora.rank == LoraSettings{}.rank, "adapter.lora.rank");
  if (adapter.kind == TrainedKind::kCal) {
    open(!adapter.cal.intermediate_size, "adapter.cal.intermediate_size");
  } else if (!lora) {
    open(!adapter.parallel_mlp.intermediate_size, "adapter.parallel_mlp.intermediate_size");
  }
  const AdapterSettings other = parse_match_params(adapter.match_params);
  if (other.kind == TrainedKind::kLora) check_lora(check, other.lora);
}

void check_adapter(const Checker& check, const AdapterSettings& adapter) {
  check_kind(check, adapter);
  const Json& placement = adapter.placement;
  bool placement_reads = placement.is_string() || placement.is_number_integer() || placement.is_array();
  if (placement.is_array()) {
    placement_reads = !placement.empty();
    for (const Json& layer : placement) placement_reads = placement_reads && layer.is_number_integer();
  }
  check.require(placement_reads, "adapter.placement", "a preset such as late8th, or a list of layer indices");
  check.range(adapter.init_std, 0.0, 10.0, "adapter.init_std");
  const auto size = [&](const std::optional<int64_t>& value, double low, std::string_view key) {
    if (value) check.range(static_cast<double>(*value), low, kMaxSize, key);
  };
  size(adapter.cal.num_heads, 1, "adapter.cal.num_heads");
  size(adapter.cal.num_kv_heads, 1, "adapter.cal.num_kv_heads");
  size(adapter.cal.head_dim, 1, "adapter.cal.head_dim");
  size(adapter.cal.intermediate_size, 0, "adapter.cal.intermediate_size");
  size(adapter.parallel_mlp.intermediate_size, 1, "adapter.parallel_mlp.intermediate_size");
  check_lora(check, adapter.lora);
}

void check_data(const Checker& check, const DataSettings& data) {
  check.require(!data.train.empty(), "data.train", "a list of {path, weight} with at least one file");
  for (size_t i = 0; i < data.train.size(); ++i) {
    const std::string key = fmt::format("data.train[{}]", i);
    check.require(!data.train[i].path.empty(), key + ".path", "the path of a JSONL file");
    check.range(data.train[i].weight, 0.001, 1000.0, key + ".weight");
  }
  for (size_t i = 0; i < data.eval.size(); ++i) {
    check.require(!data.eval[i].path.empty(), fmt::format("data.eval[{}].path", i),
                  "the path of a JSONL file");
  }
  check.range(static_cast<double>(data.max_tokens), 2, kMaxTokens, "data.max_tokens");
}

void check_optimiser(const Checker& check, const TrainSettings& train) {
  check.range(train.learning_rate, 0.0, kMaxLearningRate, "train.learning_rate");
  if (train.learning_rate_attn) {
    check.range(*train.learning_rate_attn, 0.0, kMaxLearningRate, "train.learning_rate_attn");
  }
  if (train.learning_rate_mlp) {
    check.range(*train.learning_rate_mlp, 0.0, kMaxLearningRate, "train.learning_rate_mlp");
  }
  check.range(train.warmup_ratio, 0.0, 1.0, "train.warmup_ratio");
  for (const double beta : train.betas)
    check.require(beta >= 0.0 && beta < 1.0, "train.betas", "two numbers in [0, 1)");
  check.require(train.eps > 0.0 && train.eps <= 1.0, "train.eps", "above 0 and at most 1");
  check.range(train.weight_decay, 0.0, 10.0, "train.weight_decay");
  check.range(train.grad_clip, 0.0, 1e9, "train.grad_clip");
}

void check_train(const Checker& check, const TrainConfig& config) {
  const TrainSettings& train = config.train;
  if (train.objective != Objective::kSft) {
    check.unsupported("train.objective", fmt::format("{} is not implemented in this version; use sft",
                                                     to_string(train.objective)));
  }
  check.range(static_cast<double>(train.epochs), 1, 1e6, "train.epochs");
  if (train.max_steps) check.range(static_cast<double>(*train.max_steps), 1, 1e9, "train.max_steps");
  check.range(static_cast<double>(train.batch_tokens), 1, kMaxCount, "train.batch_tokens");
  if (train.batch_examples)
    check.range(static_cast<double>(*train.batch_examples), 1, 1e9, "train.batch_examples");
  if (train.micro_batch_tokens) {
    check.range(static_cast<double>(*train.micro_batch_tokens), 1, kMaxTokens, "train.micro_batch_tokens");
  }
  check.range(static_cast<double>(train.seed), 0, 9e15, "train.seed");
  check_optimiser(check, train);
  check.range(train.prefix_cache_gib, 0.0, 1e6, "train.prefix_cache_gib");
  check.range(static_cast<double>(train.eval_every), 0, 1e9, "train.eval_every");
  check.require(train.eval_every == 0 || !config.data.eval.empty(), "train.eval_every",
                "0 unless data.eval names a file");
  check.range(static_cast<double>(train.checkpoint_every), 0, 1e9, "train.checkpoint_every");
  check.range(static_cast<double>(train.keep_checkpoints), 1, 1e6, "train.keep_checkpoints");
}

/// What copy_backbone needs and what the settings must not contradict.
void check_cal_shapes(const AdapterSettings& settings, const weights::CalConfig& cal,
                      const weights::ModelConfig& backbone) {
  const bool same_attention = cal.num_heads == backbone.num_heads &&
                              cal.num_kv_heads == backbone.num_kv_heads && cal.head_dim == backbone.head_dim;
  const bool same_mlp = cal.intermediate_size == backbone.intermediate_size || cal.intermediate_size == 0;
  if (settings.init == WeightInit::kCopyBackbone && !(same_attention && same_mlp)) {
    fail(ErrorCode::kInvalidArgument,
         "adapter.init: copy_backbone needs blocks of the backbone's shape; leave adapter.cal.num_heads, "
         "num_kv_heads, "
         "head_dim and intermediate_size null, or use init: normal");
  }
  if (cal.position == weights::CalPosition::kRope && cal.head_dim != backbone.head_dim) {
    fail(ErrorCode::kInvalidArgument,
         "adapter.cal.position: rope needs the backbone's head_dim ({}), adapter.cal.head_dim is {}",
         backbone.head_dim, cal.head_dim);
  }
}

/// Sizes that do not fit each other are the settings' fault here, not a damaged file.
weights::AdapterConfig resolve_settings(weights::AdapterConfig config, const weights::ModelConfig& backbone) {
  try {
    return weights::resolve_adapter_config(std::move(config), backbone,
                                           "the settings under adapter, with the backbone's sizes");
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalidArgument, error.what());
  }
}

/// LoRA's settings with every target known to the backbone.
weights::LoraConfig lora_config(const LoraSettings& settings, const weights::ModelConfig& backbone) {
  weights::LoraConfig lora{.rank = settings.rank,
                           .alpha = settings.alpha.value_or(static_cast<double>(settings.rank)),
                           .dropout = settings.dropout,
                           .use_rslora = settings.use_rslora,
                           .target_modules = weights::all_linear_targets()};
  if (!settings.target_modules.is_array()) return lora;
  const std::vector<weights::LoraModule> all = weights::lora_modules(lora, backbone);
  lora.target_modules = settings.target_modules.get<std::vector<std::string>>();
  for (const std::string& target : lora.target_modules) {
    const auto named = [&](const weights::LoraModule& module) {
      return weights::names_module(target, module.name);
    };
    if (std::any_of(all.begin(), all.end(), named)) continue;
    const std::string near = nearest_word(target, weights::all_linear_targets());
    fail(ErrorCode::kInvalidArgument, "adapter.lora.target_modules: '{}' is no linear layer; {}", target,
         near.empty() ? fmt::format("they are {}", fmt::join(weights::all_linear_targets(), ", "))
                      : fmt::format("did you mean '{}'?", near));
  }
  return lora;
}

/// The configuration with the size that adapter.match_params asks for; says what was chosen.
weights::AdapterConfig matched_config(weights::AdapterConfig config, const AdapterSettings& settings,
                                      const weights::ModelSource& model) {
  if (settings.match_params.is_null()) return config;
  const AdapterSettings other = parse_match_params(settings.match_params);
  const int64_t target = weights::count_parameters(make_adapter_config(other, model));
  MatchedSize matched = match_parameters(std::move(config), target, model.config(), !settings.lora.alpha);
  log_info("match_params: {} of {} gives {} parameters for {} of {} ({:+.3f} %)", to_string(settings.kind),
           matched.size, matched.parameters, target, to_string(other.kind),
           100.0 * matched.deviation(target));
  constexpr double kFar = 0.005;
  if (std::abs(matched.deviation(target)) > kFar) {
    log_warning("match_params: no size comes nearer than {:.1f} % to {} parameters",
                100.0 * std::abs(matched.deviation(target)), target);
  }
  return std::move(matched.config);
}

/// Leaves of a JSON document by dotted key; lists are leaves.
}  // namespace

LoadedConfig parse_train_config(ConfigNode tree) {
  LoadedConfig loaded;
  read_fields(tree, loaded.config);
  collect_keys(tree, "", loaded.given);
  const Checker check{tree};
  check.require(!loaded.config.model.empty(), "model", "a folder, a .gguf file, org/name, or default");
  check.require(!loaded.config.output.empty(), "output", "the folder to write to, e.g. output: runs/first");
  check_adapter(check, loaded.config.adapter);
  const TrainedKind kind = loaded.config.adapter.kind;
  const bool placed = loaded.config.adapter.placement != AdapterSettings{}.placement;
  if ((kind == TrainedKind::kLora || kind == TrainedKind::kFull) && placed) {
    log_warning("adapter.placement is not used: kind {} works in the layers themselves", to_string(kind));
  }
  check.require(loaded.config.chat.kwargs.is_object(), "chat.kwargs", "a map");
  const ChatSettings& chat = loaded.config.chat;
  check.require(!chat.date || text::is_date(*chat.date), "chat.date", "a date such as 2026-11-29");
  check_data(check, loaded.config.data);
  check_train(check, loaded.config);
  return loaded;
}

LoadedConfig load_train_config(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  ConfigNode tree = read_yaml_file(path);
  for (const std::string& assignment : overrides) apply_override(tree, assignment);
  if (tree.place.empty()) tree.place = path.string();
  return parse_train_config(std::move(tree));
}

std::string placement_text(const Json& placement) {
  if (placement.is_string()) return placement.get<std::string>();
  if (placement.is_number_integer()) return fmt::format("[{}]", placement.get<int64_t>());
  return placement.dump();
}

AdapterSettings parse_adapter_settings(const std::vector<std::string>& assignments) {
  ConfigNode tree;
  tree.place = "command line";
  for (const std::string& assignment : assignments) apply_override(tree, "adapter." + assignment);
  TrainConfig config;
  read_fields(tree, config);
  check_adapter(Checker{tree}, config.adapter);
  return config.adapter;
}

weights::AdapterConfig make_adapter_config(const AdapterSettings& settings,
                                           const weights::ModelSource& model) {
  const weights::ModelConfig& backbone = model.config();
  const bool copies = settings.init == WeightInit::kCopyBackbone;
  weights::AdapterConfig config;
  config.base = weights::base_identity(model);
  config.span = settings.span;
  config.base_model_name_or_path = model.name();
  if (settings.kind == TrainedKind::kFull) {
    config.kind = weights::AdapterKind::kFull;
    weights::check_writable_as_folder(model);
    return resolve_settings(std::move(config), backbone);
  }
  if (settings.kind == TrainedKind::kLora) {
    config.kind = weights::AdapterKind::kLora;
    config.lora = lora_config(settings.lora, backbone);
    return matched_config(resolve_settings(std::move(config), backbone), settings, model);
  }
  config.placement = with_context("adapter.placement", [&] {
    return weights::resolve_placement(placement_text(settings.placement), backbone.num_layers);
  });
  if (settings.kind == TrainedKind::kParallelMlp) {
    config.kind = weights::AdapterKind::kParallelMlp;
    const ParallelMlpSettings& mlp = settings.parallel_mlp;
    config.parallel_mlp.intermediate_size = mlp.intermediate_size.value_or(weights::kAsBackbone);
    config.parallel_mlp.input = mlp.input;
    config.parallel_mlp.mlp_scope = mlp.mlp_scope;
    return matched_config(resolve_settings(std::move(config), backbone), settings, model);
  }
  const CalSettings& cal = settings.cal;
  config.cal.num_heads = cal.num_heads.value_or(weights::kAsBackbone);
  config.cal.num_kv_heads = cal.num_kv_heads.value_or(weights::kAsBackbone);
  config.cal.head_dim = cal.head_dim.value_or(weights::kAsBackbone);
  config.cal.intermediate_size = cal.intermediate_size.value_or(weights::kAsBackbone);
  config.cal.position = cal.position;
  config.cal.self_inclusion = cal.self_inclusion;
  config.cal.mlp_scope = cal.mlp_scope;
  config.cal.attention_bias = copies && backbone.attention_bias;
  config.cal.qk_norm = copies && backbone.qk_norm;
  config = matched_config(resolve_settings(std::move(config), backbone), settings, model);
  check_cal_shapes(settings, config.cal, backbone);
  return config;
}

std::string document_train_config() {
  return fmt::format(
      "# Training configuration\n\n"
      "<!-- Written by `calyrex train --settings`; change the listing in calyrex/train/config.h instead. "
      "-->\n\n"
      "`calyrex train CONFIG.yaml [key=value ...]` reads a YAML file of the settings below. Nested maps are "
      "written here "
      "as dotted keys,\nwhich is also how a setting is changed on the command line: `train.epochs=2`, "
      "`adapter.placement=[25,27]`. What is absent keeps its\ndefault; an unknown key is an error that names "
      "the nearest "
      "one.\n\n"
      "| key | default | meaning |\n|---|---|---|\n{}\n"
      "## Mixing files\n\n"
      "`weight` is the number of passes over a file that an epoch makes on average: 1 takes every row once, "
      "2 takes every "
      "row twice, 0.25 a\nquarter of the rows, drawn anew in each epoch; 1.5 takes every row once and half "
      "of them again. "
      "The draw and the order depend on\n`train.seed` alone, not on batch sizes.\n\n"
      "## Steps\n\n"
      "An optimiser step takes rows in order until the next one would exceed `train.batch_tokens` (or until "
      "it has "
      "`train.batch_examples` rows).\nAn epoch's last step may be smaller; steps never cross epochs. The "
      "loss is the mean "
      "over all label tokens of the step, however it is\nsplit into micro batches. Labels are the content "
      "and the "
      "end-of-turn token of assistant messages.\n\n"
      "## Stopping and going on\n\n"
      "Ctrl-C, SIGTERM and SIGUSR1 write a checkpoint and end with code 130; the same command continues, and "
      "gives the "
      "same bits as a run\nthat was never interrupted (same threads, same processor). A run with an `output` "
      "that holds "
      "an unfinished run of another\nconfiguration ends with code 2 and names the keys; `--restart` begins "
      "anew.\n",
      document_fields<TrainConfig>());
}

}  // namespace calyrex::train
