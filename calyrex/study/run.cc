#include "calyrex/study/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/config_edit.h"
#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/log.h"
#include "calyrex/eval/run/rehearsal.h"
#include "calyrex/eval/run/runner.h"
#include "calyrex/eval/run/subjects.h"
#include "calyrex/eval/tasks/registry.h"
#include "calyrex/study/estimate.h"
#include "calyrex/study/plan.h"
#include "calyrex/study/plan_file.h"
#include "calyrex/study/rates.h"
#include "calyrex/study/unit.h"
#include "calyrex/train/prefix_cache.h"
#include "calyrex/train/signals.h"

namespace calyrex::study {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kGib = 1 << 30;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Study {
 public:
  explicit Study(const StudyRequest& request)
      : request_(request), file_(load_study_file(request.path, request.overrides)) {}

  fs::path run();

 private:
  const StudySettings& settings() const { return file_.settings; }
  fs::path folder() const { return settings().output; }

  void prepare();
  void check_evals();
  /// `kept` takes the task as it is loaded.
  CheckedEval check_eval(const EvalEntry& entry, AskedTokens& asked, eval::LoadedTask* kept = nullptr) const;
  void print_plan();
  std::optional<double> kept_rate(const PlannedRun& run) const;
  void check_rates();

  std::optional<train::PrefixStates> states_of(const PlannedRun& run) const;
  Unit unit_of(const PlannedRun& run, std::optional<double> rate) const;
  std::vector<const CheckedEval*> evals_of(const PlannedRun& run) const;

  std::optional<double> rate_of(const PlannedRun& run) const;
  void run_all();
  void run_one(const PlannedRun& run);
  void report(const PlannedRun& run, const Json& result);
  void renew_reports();
  void finish();

  const StudyRequest& request_;
  StudyFile file_;
  std::shared_ptr<const weights::ModelSource> model_;
  std::string backbone_;  // its digest
  std::vector<PlannedRun> runs_;
  std::optional<DataSizes> sizes_;
  std::vector<int64_t> states_layers_;
  std::vector<CheckedEval> evals_;
  std::vector<AskedTokens> asked_;
  AskedTokens select_asked_;
  std::optional<RateChoice> rates_;  // absent: nothing is chosen
  train::EncodedRowsCache rows_;
  double estimated_left_ = 0.0;
  double estimated_done_ = 0.0;
  double spent_ = 0.0;
  std::vector<double> estimates_;  // seconds a run
  std::vector<std::pair<std::string, Error>> failures_;
};

fs::path Study::run() {
  const train::StopSignals signals;
  prepare();
  print_plan();
  if (request_.plan_only) return folder();
  make_directories(folder());
  remove_abandoned_files(folder());
  write_plan(settings(), *model_, runs_);
  if (rates_) rates_->choose(rows_);
  run_all();
  finish();
  return folder();
}

/// Everything that can be wrong is found here.
void Study::prepare() {
  train::TrainConfig base;
  if (const ConfigNode* tree = file_.tree.find("base")) read_fields(*tree, base);
  model_ = weights::open_model(base.model);
  backbone_ = train::backbone_digest(*model_);
  if (!base.chat.date) {
    // A date that depends on the day of a run would make runs differ.
    set_entry(file_.tree, "base.chat.date", config_from_json(eval::kFixedDate, "the study"));
  }
  runs_ = plan_runs(file_, *model_);
  refuse_other_output(settings(), runs_);
  check_evals();
  sizes_.emplace(runs_);
  states_layers_ = share_states(runs_, *sizes_, model_->config());
  check_rates();
  for (const PlannedRun& run : runs_) {
    if (run.runs()) finished_result(unit_of(run, kept_rate(run)));
  }
}

/// Of a run that leaves its rate to be chosen: the one that it was begun with, which must be one of the grid.
std::optional<double> Study::kept_rate(const PlannedRun& run) const {
  if (!run.chooses_rate) return std::nullopt;
  const std::vector<double>& grid = settings().select.learning_rate;
  const std::optional<double> kept = trained_rate(folder() / "runs" / run.name);
  return kept && std::ranges::find(grid, *kept) != grid.end() ? *kept : grid.front();
}

CheckedEval Study::check_eval(const EvalEntry& entry, AskedTokens& asked, eval::LoadedTask* kept) const {
  return with_context(fmt::format("eval '{}'", entry.name), [&] {
    const eval::Task& task = eval::find_task(entry.task);
    if (task.info().needs_judge) {
      log_warning("{} needs a judge, which a study does not have: judged metrics will be missing",
                  entry.task);
    }
    eval::LoadedTask loaded = eval::load_task(task, eval::load_options(task, to_choice(entry)));
    if (entry.limit) eval::limit_samples(loaded, *entry.limit);
    asked = count_asked(loaded, entry.max_new_tokens);
    CheckedEval checked{.entry = entry, .data_sha256 = loaded.data_sha256};
    if (kept != nullptr) *kept = std::move(loaded);
    return checked;
  });
}

void Study::check_evals() {
  for (const EvalEntry& entry : settings().eval) {
    asked_.emplace_back();
    evals_.push_back(check_eval(entry, asked_.back()));
  }
}

void Study::check_rates() {
  const SelectSettings& select = settings().select;
  if (select.learning_rate.empty()) return;
  eval::LoadedTask loaded;
  const CheckedEval eval = check_eval(select.on, select_asked_, &loaded);
  const std::vector<std::string> known = eval::rehearse(loaded);
  if (std::ranges::find(known, select.metric) == known.end()) {
    const std::string near = nearest_word(select.metric, known);
    fail(ErrorCode::kInvalidArgument, "{}: select.metric '{}' is none of {}'s metrics; {}",
         request_.path.string(), select.metric, select.on.task,
         near.empty() ? fmt::format("it has {}", fmt::join(known, ", "))
                      : fmt::format("did you mean '{}'?", near));
  }
  rates_.emplace(RateChoice::Options{.settings = select,
                                     .eval = eval,
                                     .folder = folder() / "select",
                                     .unit_of = [this](const PlannedRun& run,
                                                       double rate) { return unit_of(run, rate); }},
                 runs_);
}

void Study::print_plan() {
  const double flops = measure_flops("auto");
  double training = 0.0, evaluation = 0.0;
  int64_t tokens = 0, disk = 0, checkpoints = 0, todo = 0, here = 0, cells = 0;
  for (size_t i = 0; i < runs_.size(); ++i) {
    const PlannedRun& run = runs_[i];
    estimates_.push_back(0.0);
    cells += run.not_applicable ? 1 : 0;
    if (!run.runs()) continue;
    std::vector<AskedTokens> asked;
    for (size_t e = 0; e < evals_.size(); ++e) {
      const auto& only = evals_[e].entry.only;
      if (only.empty() || std::ranges::find(only, run.setting) != only.end()) asked.push_back(asked_[e]);
    }
    const RunEstimate estimate = estimate_run(run, *sizes_, model_->config(), asked, flops);
    estimates_.back() = estimate.seconds();
    disk += estimate.disk_bytes;
    checkpoints = std::max(checkpoints, estimate.checkpoint_bytes);
    if (finished_result(unit_of(run, kept_rate(run)))) continue;
    ++todo;
    if (static_cast<int64_t>(i) % request_.num_shards != request_.shard) continue;
    ++here;
    training += estimate.training_seconds;
    evaluation += estimate.evaluation_seconds;
    tokens += estimate.training_tokens;
  }
  std::set<std::string> kinds;
  const auto add_candidate = [&](const PlannedRun& run) {
    const RunEstimate estimate = estimate_run(run, *sizes_, model_->config(), {select_asked_}, flops);
    evaluation += estimate.evaluation_seconds;
    disk += estimate.disk_bytes;
    // The candidate that is chosen spares the kind's first run its training.
    if (kinds.insert(run.kind).second) return;
    training += estimate.training_seconds;
    tokens += estimate.training_tokens;
  };
  if (rates_) rates_->for_each_unfinished(add_candidate);
  const int64_t states = static_cast<int64_t>(states_layers_.size()) *
                         states_bytes(runs_, *sizes_, model_->config()) * request_.num_shards;
  estimated_left_ = training + evaluation;
  log_info("{}: {} runs, {} of them to do{}{}", settings().name, runs_.size() - static_cast<size_t>(cells),
           todo, request_.num_shards > 1 ? fmt::format(" ({} here)", here) : "",
           cells > 0 ? fmt::format("; {} cells not applicable", cells) : "");
  for (const PlannedRun& run : runs_) {
    if (run.not_applicable) log_info("  {}: not applicable: {}", run.name, *run.not_applicable);
    if (run.same_as) log_info("  {}: the same as {}", run.name, *run.same_as);
  }
  log_info(
      "estimate: about {} (training {}, evaluation {}), {:.2f} million training tokens, {:.2f} GiB of disk "
      "({:.2f} of it shared states, {:.2f} checkpoints while they are needed)",
      format_duration(estimated_left_), format_duration(training), format_duration(evaluation),
      static_cast<double>(tokens) / 1e6, static_cast<double>(disk + states + checkpoints) / kGib,
      static_cast<double>(states) / kGib, static_cast<double>(checkpoints) / kGib);
}

std::optional<train::PrefixStates> Study::states_of(const PlannedRun& run) const {
  if (!run.states_layer) return std::nullopt;
  const double budget = run.config->train.prefix_cache_gib * kGib;
  const auto files = static_cast<double>(states_layers_.size()) * static_cast<double>(request_.num_shards);
  // Processes do not share files: one writes at a time.
  fs::path own = folder() / "prefix_cache";
  if (request_.num_shards > 1) own /= fmt::format("shard{}of{}", request_.shard + 1, request_.num_shards);
  return train::PrefixStates{
      .folder = own, .layer = *run.states_layer, .budget_bytes = static_cast<int64_t>(budget / files)};
}

std::vector<const CheckedEval*> Study::evals_of(const PlannedRun& run) const {
  // What an equal run of another name is evaluated on, this one is too.
  const auto wanted = [&](const EvalEntry& entry) {
    if (entry.only.empty()) return true;
    return std::ranges::any_of(runs_, [&](const PlannedRun& other) {
      const bool same = other.name == run.name || other.same_as == run.name;
      return same && std::ranges::find(entry.only, other.setting) != entry.only.end();
    });
  };
  std::vector<const CheckedEval*> evals;
  for (const CheckedEval& eval : evals_) {
    if (wanted(eval.entry)) evals.push_back(&eval);
  }
  return evals;
}

Unit Study::unit_of(const PlannedRun& run, std::optional<double> rate) const {
  Unit unit;
  unit.name = run.name;
  unit.folder = folder() / "runs" / run.name;
  unit.dtype = settings().dtype;
  unit.backbone = backbone_;
  unit.evals = evals_of(run);
  unit.trains = run.config.has_value();
  unit.is_full = run.kind == "full";
  unit.states = states_of(run);
  unit.tree = run.tree;
  // What shares no states would keep its own, beyond the study's budget.
  if (unit.trains && !unit.states)
    set_entry(unit.tree, "train.prefix_cache_gib", config_from_json(0, "the study"));
  if (!unit.trains) {
    if (const ConfigNode* base = file_.tree.find("base")) unit.tree = *base;
  }
  if (rate) set_entry(unit.tree, "train.learning_rate", config_from_json(*rate, "select"));
  return unit;
}

std::optional<double> Study::rate_of(const PlannedRun& run) const {
  return rates_ ? rates_->rate_of(run) : std::nullopt;
}

void Study::run_all() {
  for (size_t i = 0; i < runs_.size(); ++i) {
    if (!runs_[i].runs() || static_cast<int64_t>(i) % request_.num_shards != request_.shard) continue;
    train::StopSignals::check();
    const Clock::time_point start = Clock::now();
    run_one(runs_[i]);
    const double seconds = seconds_since(start);
    constexpr double kRead = 1.0;  // a finished run is only read
    estimated_left_ -= seconds > kRead ? estimates_[i] : 0.0;
    if (seconds <= kRead) continue;
    estimated_done_ += estimates_[i];
    spent_ += seconds;
    if (estimated_left_ > 0.0 && estimated_done_ > 0.0)
      log_info("about {} left", format_duration(estimated_left_ * spent_ / estimated_done_));
  }
}

void Study::run_one(const PlannedRun& run) {
  try {
    Unit unit = unit_of(run, rate_of(run));
    if (rates_) unit.twin = rates_->twin_of(run);
    const std::optional<Json> result = run_unit(unit, rows_);
    if (!result) {
      log_info("{}: another process is at it", run.name);
      return;
    }
    report(run, *result);
  } catch (const Error& error) {
    // Any other error is this run's alone: a full disk, a loss that is not finite.
    if (error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kInternal) throw;
    log_warning("{} failed and the study goes on: {}", run.name, error.what());
    failures_.emplace_back(run.name, error);
    return;
  }
  renew_reports();
}

/// A row of the live table.
void Study::report(const PlannedRun& run, const Json& result) {
  std::string row = fmt::format("{:<32}", run.name);
  if (result["training"].is_object()) {
    row += fmt::format(" loss {:<7.4f} {:>9}", result["training"].value("final_loss", NAN),
                       format_duration(result["training"].value("seconds", -1.0)));
  } else {
    row += fmt::format(" {:<12} {:>9}", "untrained", "");
  }
  for (const Json& entry : result["eval"]) {
    const Json& results = entry["results"];
    for (const Json& name : results["headline"]) {
      if (!results["metrics"].contains(name.get<std::string>())) continue;
      row += fmt::format(" | {} {} {:.3f}", entry["name"].get<std::string>(), name.get<std::string>(),
                         results["metrics"][name.get<std::string>()].value("value", NAN));
      break;
    }
  }
  log_info("{}", row);
}

void Study::renew_reports() {
  if (!request_.on_result) return;
  try {
    request_.on_result(folder());
  } catch (const Error& error) {
    log_warning("the report was not renewed: {}", error.what());
  }
}

void Study::finish() {
  int64_t hits = 0, lookups = 0, missing = 0;
  for (const PlannedRun& run : runs_) {
    if (!run.runs()) continue;
    const std::optional<Json> result = finished_result(unit_of(run, rate_of(run)));
    missing += result ? 0 : 1;
    if (!result || !(*result)["training"].is_object() || !(*result)["training"].contains("prefix_cache"))
      continue;
    const Json& cache = (*result)["training"]["prefix_cache"];
    hits += cache["hits"].get<int64_t>();
    lookups += cache["hits"].get<int64_t>() + cache["misses"].get<int64_t>();
  }
  const fs::path states = folder() / "prefix_cache";
  if (lookups > 0) {
    int64_t bytes = 0;
    std::error_code error;
    for (auto entry = fs::recursive_directory_iterator(states, error);
         !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
      if (entry->is_regular_file(error)) bytes += static_cast<int64_t>(entry->file_size(error));
    }
    log_info("shared states: {} of {} row lookups were hits; {:.2f} GiB on disk for the layers {}", hits,
             lookups, static_cast<double>(bytes) / kGib, fmt::join(states_layers_, ", "));
  }
  if (missing == 0) {
    std::error_code ignored;
    fs::remove_all(states, ignored);
  }
  if (failures_.empty()) {
    if (missing > 0) log_info("{} runs are left to other processes", missing);
    return;
  }
  std::vector<std::string> names;
  for (const auto& [name, error] : failures_) names.push_back(name);
  fail(failures_.front().second.code(),
       "{} of {} runs failed ({}), the first with: {}; what is finished stays, and the same command tries "
       "them "
       "again",
       failures_.size(), runs_.size(), fmt::join(names, ", "), failures_.front().second.what());
}

}  // namespace

fs::path run_study(const StudyRequest& request) { return Study(request).run(); }

}  // namespace calyrex::study
