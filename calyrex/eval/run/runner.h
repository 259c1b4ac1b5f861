// Runs tasks over models: everything that is to be asked goes into one queue, replies are graded as they
// arrive, and what is finished is on disk at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/eval/core/task.h"
#include "calyrex/eval/run/dispatcher.h"
#include "calyrex/eval/run/response_cache.h"
#include "calyrex/eval/run/run_folder.h"
#include "calyrex/lm/language_model.h"

namespace calyrex::eval {

/// Whose answers are graded: the base model, or it with an adapter. `name` is that of the folder.
struct Subject {
  std::string name = "base";
  lm::AdapterChoice adapter;
  /// All of model, adapter and template that answers depend on; goes into run.json and request digests.
  Json identity = Json::object();
  /// Keys of results.json: model, adapter, scale, ...
  Json description = Json::object();
  /// Without a system span the answers are the base model's (mlp_scope: anchored).
  bool anchored = false;
  /// The chat template writes function schemas (form `tools`).
  bool renders_tools = true;
};

/// A task with the rows that are run.
struct LoadedTask {
  const Task* task = nullptr;
  LoadOptions options;
  Samples samples;
  std::string data_sha256;  // of all ids and prompts, before any limit
  /// Answers that exist already, those of each sample in order (attach_answers()): no model is asked.
  std::optional<std::vector<std::vector<std::string>>> answers;
};

/// Loads a task and checks that ids differ.
LoadedTask load_task(const Task& task, const LoadOptions& options);
/// Keeps the first `limit` samples.
void limit_samples(LoadedTask& task, int64_t limit);

/// Throws kUnsupported, naming it, when a task scores given answers: endpoints write answers only.
void require_generation(const std::vector<LoadedTask>& tasks);

/// Opened when a question is first asked, so that finished runs and cached replies need no model.
using OpenModel = std::function<lm::LanguageModel&()>;

struct RunOptions {
  std::filesystem::path output;
  std::optional<int64_t> limit;           // recorded; applied by limit_samples()
  std::optional<int64_t> max_new_tokens;  // at most; absent: as each task says
  uint64_t seed = 0;
  OpenModel model;
  OpenModel judge;               // null: judge asks leave their samples ungraded
  Json judge_identity;           // null without a judge
  bool counts_tokens = true;     // false: an endpoint; its context is not known
  int64_t max_generating = 256;  // requests under way at a time
  int64_t max_scoring = 512;
  std::function<bool()> interrupted;
  std::function<void(int64_t done, int64_t total, int64_t done_before)> progress;
};

/// One task with one subject, finished.
struct Finished {
  std::filesystem::path folder;
  Json results;
};

/// Evaluates every task with every subject under output/<task>/<subject>, going on where an earlier run of
/// the same configuration ended. In the order of tasks, then subjects. Throws kInvalidArgument for a folder
/// of another configuration, kResourceExhausted while another process works in `output`, kUnsupported for
/// form `tools` where a subject's template writes none, kCancelled when interrupted, kUnavailable when a
/// model does not answer any more: what was done is kept. A request that is refused leaves its sample
/// ungraded.
std::vector<Finished> run_tasks(std::vector<LoadedTask> tasks, const std::vector<Subject>& subjects,
                                const RunOptions& options);

}  // namespace calyrex::eval
