#include "calyrex/study/unit.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/config_edit.h"
#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/folder_lock.h"
#include "calyrex/base/log.h"
#include "calyrex/base/sha256.h"
#include "calyrex/eval/run/runner.h"
#include "calyrex/eval/run/subjects.h"
#include "calyrex/eval/run/task_choice.h"
#include "calyrex/eval/tasks/registry.h"
#include "calyrex/infer/open.h"
#include "calyrex/model/cpu_allocator.h"
#include "calyrex/text/chat_encoder.h"
#include "calyrex/train/config.h"
#include "calyrex/train/run.h"
#include "calyrex/train/signals.h"
#include "calyrex/weights/adapter_folder.h"

namespace calyrex::study {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kVersion = 1;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

fs::path adapter_folder(const Unit& unit) { return unit.folder / "adapter"; }

lm::Precision precision_of(const std::string& dtype) {
  if (dtype == "float32") return lm::Precision::kFloat32;
  return dtype == "bfloat16" ? lm::Precision::kBFloat16 : lm::Precision::kAuto;
}

train::TrainConfig read_config(const Unit& unit) {
  train::TrainConfig config;
  read_fields(unit.tree, config);
  return config;
}

/// All that a unit's result depends on, but for the program itself.
Json identity_of(const Unit& unit) {
  const train::TrainConfig config = read_config(unit);
  Json identity;
  identity["model"] = config.model;
  identity["backbone"] = unit.backbone;
  identity["chat"] = write_fields(config.chat);
  if (config.chat.chat_template) {
    identity["chat"]["template_sha256"] = sha256_hex(text::resolve_chat_template(*config.chat.chat_template));
  }
  identity["dtype"] = unit.dtype;
  if (unit.trains) {
    identity["adapter"] = write_fields(config.adapter);
    identity["data"] = write_fields(config.data);
    identity["train"] = write_fields(config.train);
    identity["files"] = Json::object();
    for (const train::TrainFile& file : config.data.train)
      identity["files"][file.path] = file_sha256(file.path);
    for (const auto& file : config.data.eval) identity["files"][file.path] = file_sha256(file.path);
    if (config.adapter.init_from) {
      identity["init_from_sha256"] = weights::open_adapter(*config.adapter.init_from).content_sha256;
    }
    identity["states_layer"] = unit.states ? Json(unit.states->layer) : Json();
  }
  identity["eval"] = Json::object();
  for (const CheckedEval* eval : unit.evals) {
    Json entry = write_fields(eval->entry);
    entry.erase("only");
    entry["data_sha256"] = eval->data_sha256;
    entry["scorer_version"] = eval::find_task(eval->entry.task).info().scorer_version;
    identity["eval"][eval->entry.name] = std::move(entry);
  }
  return identity;
}

/// Checks that the folder's unit is this one; evaluations may come and go. Returns the identity with those of
/// both.
Json merged_identity(const Unit& unit, Json identity) {
  const fs::path file = unit.folder / "identity.json";
  if (!path_exists(file)) return identity;
  const Json before = read_json_file(file);
  const auto without_eval = [](Json json) {
    json.erase("eval");
    return json;
  };
  std::vector<std::string> differences =
      train::config_differences(without_eval(before), without_eval(identity));
  const Json evals_before = before.value("eval", Json::object());
  for (const auto& [name, entry] : evals_before.items()) {
    if (!identity["eval"].contains(name)) {
      identity["eval"][name] = entry;
      continue;
    }
    for (const std::string& difference : train::config_differences(entry, identity["eval"][name]))
      differences.push_back(fmt::format("eval {}.{}", name, difference));
  }
  if (differences.empty()) return identity;
  fail(ErrorCode::kInvalidArgument,
       "{} holds a run of another configuration ({}); choose another output or remove the folder",
       unit.folder.string(), fmt::join(differences, "; "));
}

/// The result, where it is there with every evaluation that the unit asks for.
std::optional<Json> read_result(const Unit& unit) {
  const fs::path file = unit.folder / "result.json";
  if (!path_exists(file)) return std::nullopt;
  Json result = read_json_file(file);
  if (!result.is_object() || result.value("format", "") != "calyrex-study-run" || !result.contains("eval")) {
    fail(ErrorCode::kCorruptData, "{}: not the result of a run; remove it to run it anew", file.string());
  }
  for (const CheckedEval* eval : unit.evals) {
    const bool there = std::ranges::any_of(
        result["eval"], [&](const Json& entry) { return entry.value("name", "") == eval->entry.name; });
    if (!there) return std::nullopt;
  }
  return result;
}

/// Trains to the end; what the training record tells.
Json train_unit(const Unit& unit, train::EncodedRowsCache& rows) {
  ConfigNode tree = unit.tree;
  set_entry(tree, "output", config_from_json(adapter_folder(unit).string(), "the study"));
  const fs::path config = unit.folder / "config.yaml";
  // JSON is YAML: `calyrex train` repeats the run with it.
  write_file_atomically(config, to_json_text(config_to_json(tree)));
  train::run_training({.config_path = config,
                       .overrides = {},
                       .existing = train::Existing::kContinue,
                       .shared = {.rows = &rows, .prefix_states = unit.states}});
  const Json record = read_json_file(adapter_folder(unit) / "training.json");
  Json training = Json::object();
  training["learning_rate"] = read_config(unit).train.learning_rate;
  for (const char* key : {"steps", "tokens", "label_tokens", "seconds", "final_loss", "dtype", "threads",
                          "trained_parameters", "backbone_parameters", "prefix_cache", "curve"}) {
    if (record.contains(key)) training[key] = record[key];
  }
  return training;
}

std::unique_ptr<eval::LocalSubjects> open_subjects(const Unit& unit) {
  const train::TrainConfig config = read_config(unit);
  eval::LocalSubjects::Options options;
  options.model.model = unit.is_full ? adapter_folder(unit).string() : config.model;
  options.model.dtype = precision_of(unit.dtype);
  options.model.chat_kwargs = config.chat.kwargs;
  options.model.chat_date = config.chat.date;
  if (!unit.trains && config.chat.chat_template)
    options.model.chat_template = text::resolve_chat_template(*config.chat.chat_template);
  options.dtype = unit.dtype;
  if (unit.trains && !unit.is_full) options.adapters.push_back({.path = adapter_folder(unit)});
  options.open = infer::open_language_model;
  return std::make_unique<eval::LocalSubjects>(std::move(options));
}

Json evaluate_entry(const Unit& unit, const CheckedEval& eval, eval::LocalSubjects& local) {
  const EvalEntry& entry = eval.entry;
  const eval::Task& task = eval::find_task(entry.task);
  std::vector<eval::LoadedTask> tasks;
  tasks.push_back(eval::load_task(task, eval::load_options(task, to_choice(entry))));
  if (entry.limit) eval::limit_samples(tasks.back(), *entry.limit);
  eval::RunOptions options;
  options.output = unit.folder / "eval" / entry.name;
  options.limit = entry.limit;
  options.max_new_tokens = entry.max_new_tokens;
  options.seed = static_cast<uint64_t>(entry.seed);
  options.model = [&]() -> lm::LanguageModel& { return local.model(); };
  options.interrupted = train::StopSignals::requested;
  ProgressLine line;
  options.progress = [&](int64_t done, int64_t total, int64_t) {
    line.show(fmt::format("{}, {}: {} of {} samples", unit.name, entry.name, done, total));
  };
  const auto finished = eval::run_tasks(std::move(tasks), {local.subjects().back()}, options);
  Json json;
  json["name"] = entry.name;
  json["task"] = entry.task;
  // From the unit's own folder: a study may be moved.
  json["folder"] = fs::relative(finished.front().folder, unit.folder).string();
  json["results"] = finished.front().results;
  return json;
}

}  // namespace

std::optional<Json> finished_result(const Unit& unit) {
  merged_identity(unit, identity_of(unit));
  return read_result(unit);
}

std::optional<Json> run_unit(const Unit& unit, train::EncodedRowsCache& rows) {
  const Json identity = merged_identity(unit, identity_of(unit));
  if (std::optional<Json> result = read_result(unit)) return result;
  const std::optional<FolderLock> lock = FolderLock::try_lock(unit.folder);
  if (!lock) return std::nullopt;
  // Another process may have finished it since.
  if (std::optional<Json> result = read_result(unit)) return result;
  write_file_atomically(unit.folder / "identity.json", to_json_text(identity));
  Json result;
  result["format"] = "calyrex-study-run";
  result["version"] = kVersion;
  result["name"] = unit.name;
  model::release_unused_memory();  // of the unit before
  result["training"] = unit.trains ? train_unit(unit, rows) : Json();
  model::release_unused_memory();
  const Clock::time_point start = Clock::now();
  result["eval"] = Json::array();
  const std::unique_ptr<eval::LocalSubjects> local = open_subjects(unit);
  for (const CheckedEval* eval : unit.evals) {
    result["eval"].push_back(evaluate_entry(unit, *eval, *local));
  }
  result["evaluation_seconds"] = seconds_since(start);
  write_file_atomically(unit.folder / "result.json", to_json_text(result));
  std::error_code ignored;
  fs::remove_all(adapter_folder(unit) / "checkpoints", ignored);
  return result;
}

}  // namespace calyrex::study
