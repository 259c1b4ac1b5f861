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
#include "calyrex/study/results/stored.h"
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

Json without_eval(Json identity) {
  identity.erase("eval");
  return identity;
}

/// Checks that the folder's unit is this one; evaluations may come and go. Returns the identity with those of
/// both.
Json merged_identity(const Unit& unit, Json identity) {
  const fs::path file = unit.folder / "identity.json";
  if (!path_exists(file)) {
    if (!path_exists(unit.folder / "result.json")) return identity;
    fail(ErrorCode::kCorruptData,
         "{} holds result.json without identity.json; remove it, and the study works it out again",
         unit.folder.string());
  }
  const Json before = read_stored_identity(file);
  std::vector<std::string> differences = config_differences(without_eval(before), without_eval(identity));
  for (const auto& [name, entry] : before["eval"].items()) {
    if (!identity["eval"].contains(name)) {
      identity["eval"][name] = entry;
      continue;
    }
    for (const std::string& difference : config_differences(entry, identity["eval"][name]))
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
  Json result = read_stored_result(file);
  for (const CheckedEval* eval : unit.evals) {
    const bool there = std::ranges::any_of(
        result["eval"], [&](const Json& entry) { return entry.value("name", "") == eval->entry.name; });
    if (!there) return std::nullopt;
  }
  return result;
}

/// Takes over the adapter of a finished unit that was trained with this very configuration.
void take_over_twin(const Unit& unit, const Json& identity) {
  if (unit.twin.empty() || path_exists(adapter_folder(unit))) return;
  if (!path_exists(unit.twin / "result.json") || !path_exists(unit.twin / "identity.json")) return;
  const Json there = read_stored_identity(unit.twin / "identity.json");
  if (!config_differences(without_eval(there), without_eval(identity)).empty()) return;
  AtomicDirectory copy(adapter_folder(unit));
  std::error_code error;
  for (auto entry = fs::directory_iterator(unit.twin / "adapter", error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (!entry->is_regular_file(error)) continue;
    fs::copy_file(entry->path(), copy.staging() / entry->path().filename(), error);
    if (error) break;
  }
  if (error) fail(ErrorCode::kIo, "cannot copy {}: {}", (unit.twin / "adapter").string(), error.message());
  copy.commit();
  log_info("{}: trained already as {}", unit.name, unit.twin.filename().string());
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

fs::path failure_file(const Unit& unit) { return unit.folder / "failed.json"; }

void remove_checkpoints(const Unit& unit) {
  std::error_code ignored;
  fs::remove_all(adapter_folder(unit) / "checkpoints", ignored);
}

/// Trains; keeps beside a candidate why it cannot be trained.
Json train_or_keep_failure(const Unit& unit, train::EncodedRowsCache& rows) {
  if (const auto failure = kept_failure(unit)) {
    fail(ErrorCode::kInvalidArgument, "{} (kept in {}; remove that file to try again)", *failure,
         failure_file(unit).string());
  }
  try {
    return train_unit(unit, rows);
  } catch (const Error& error) {
    // A loss that is not finite; what a full disk or a signal ends is tried again.
    if (unit.is_candidate && error.code() == ErrorCode::kInvalidArgument) {
      const Json failure = {{"format", "calyrex-study-failure"}, {"error", error.what()}};
      write_file_atomically(failure_file(unit), to_json_text(failure));
    }
    throw;
  }
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

std::optional<std::string> kept_failure(const Unit& unit) {
  if (!unit.is_candidate || !path_exists(failure_file(unit))) return std::nullopt;
  return read_stored_failure(failure_file(unit))["error"].get<std::string>();
}

std::optional<double> trained_rate(const fs::path& folder) {
  const fs::path file = folder / "identity.json";
  if (!path_exists(file)) return std::nullopt;
  const Json identity = read_stored_identity(file);
  const auto train = identity.find("train");
  if (train == identity.end() || !train->contains("learning_rate")) return std::nullopt;
  const Json& rate = (*train)["learning_rate"];
  return rate.is_number() ? std::optional(rate.get<double>()) : std::nullopt;
}

std::optional<Json> run_unit(const Unit& unit, train::EncodedRowsCache& rows) {
  const Json identity = merged_identity(unit, identity_of(unit));
  const auto finished = [&] {
    std::optional<Json> result = read_result(unit);
    // A process that was killed when the result was just written left them.
    if (result) remove_checkpoints(unit);
    return result;
  };
  if (std::optional<Json> result = finished()) return result;
  const std::optional<FolderLock> lock = FolderLock::try_lock(unit.folder);
  if (!lock) return std::nullopt;
  // Another process may have finished it since.
  if (std::optional<Json> result = finished()) return result;
  write_file_atomically(unit.folder / "identity.json", to_json_text(identity));
  if (unit.trains) take_over_twin(unit, identity);
  Json result;
  result["format"] = "calyrex-study-run";
  result["version"] = kVersion;
  result["name"] = unit.name;
  model::release_unused_memory();  // of the unit before
  result["training"] = unit.trains ? train_or_keep_failure(unit, rows) : Json();
  const Clock::time_point start = Clock::now();
  result["eval"] = Json::array();
  const std::unique_ptr<eval::LocalSubjects> local = open_subjects(unit);
  for (const CheckedEval* eval : unit.evals) {
    result["eval"].push_back(evaluate_entry(unit, *eval, *local));
  }
  result["evaluation_seconds"] = seconds_since(start);
  write_file_atomically(unit.folder / "result.json", to_json_text(result));
  remove_checkpoints(unit);
  return result;
}

}  // namespace calyrex::study
