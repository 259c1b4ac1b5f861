#include "calyrex/study/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/config_edit.h"
#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/log.h"
#include "calyrex/eval/run/runner.h"
#include "calyrex/eval/run/subjects.h"
#include "calyrex/eval/tasks/registry.h"
#include "calyrex/study/estimate.h"
#include "calyrex/study/plan.h"
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

void check_interrupt() {
  if (train::StopSignals::requested()) fail(ErrorCode::kCancelled, "interrupted; the same command goes on");
}

/// A kind's learning rate.
struct Selection {
  std::string kind;
  const PlannedRun* reference = nullptr;  // the kind's first run, whose settings the candidates have
  std::optional<double> chosen;
};

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
  CheckedEval check_eval(const EvalEntry& entry, AskedTokens& asked) const;
  void print_plan();
  void refuse_foreign_folder() const;
  void write_plan() const;

  std::optional<train::PrefixStates> states_of(const PlannedRun& run) const;
  Unit unit_of(const PlannedRun& run, std::optional<double> rate) const;
  Unit candidate_of(const Selection& selection, double rate) const;
  std::vector<const CheckedEval*> evals_of(const PlannedRun& run) const;

  void select_rates();
  Json candidate_metrics(const Selection& selection, double rate);
  double selected_metric(const Json& metrics) const;
  void select_rate(Selection& selection);
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
  std::optional<CheckedEval> select_eval_;
  AskedTokens select_asked_;
  std::vector<Selection> selections_;
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
  refuse_foreign_folder();
  make_directories(folder());
  write_plan();
  select_rates();
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
  check_evals();
  sizes_.emplace(runs_);
  states_layers_ = share_states(runs_, *sizes_, model_->config());
  if (!settings().select.learning_rate.empty()) {
    for (const PlannedRun& run : runs_) {
      const bool known = std::ranges::any_of(selections_, [&](const auto& s) { return s.kind == run.kind; });
      if (run.runs() && run.chooses_rate && !known)
        selections_.push_back({.kind = run.kind, .reference = &run, .chosen = {}});
    }
  }
  for (const PlannedRun& run : runs_) {
    if (run.runs() && !run.chooses_rate) finished_result(unit_of(run, std::nullopt));
  }
}

CheckedEval Study::check_eval(const EvalEntry& entry, AskedTokens& asked) const {
  return with_context(fmt::format("eval '{}'", entry.name), [&] {
    const eval::Task& task = eval::find_task(entry.task);
    if (task.info().needs_judge) {
      log_warning("{} needs a judge, which a study does not have: judged metrics will be missing",
                  entry.task);
    }
    eval::LoadedTask loaded = eval::load_task(task, eval::load_options(task, to_choice(entry)));
    if (entry.limit) eval::limit_samples(loaded, *entry.limit);
    asked = count_asked(loaded, entry.max_new_tokens);
    return CheckedEval{.entry = entry, .data_sha256 = loaded.data_sha256};
  });
}

void Study::check_evals() {
  for (const EvalEntry& entry : settings().eval) {
    asked_.emplace_back();
    evals_.push_back(check_eval(entry, asked_.back()));
  }
  if (!settings().select.learning_rate.empty()) {
    select_eval_ = check_eval(settings().select.on, select_asked_);
  }
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
    if (!run.chooses_rate && finished_result(unit_of(run, std::nullopt))) continue;
    ++todo;
    if (static_cast<int64_t>(i) % request_.num_shards != request_.shard) continue;
    ++here;
    training += estimate.training_seconds;
    evaluation += estimate.evaluation_seconds;
    tokens += estimate.training_tokens;
  }
  for (const Selection& selection : selections_) {
    const RunEstimate estimate =
        estimate_run(*selection.reference, *sizes_, model_->config(), {select_asked_}, flops);
    const auto count = static_cast<double>(settings().select.learning_rate.size());
    training += count * estimate.training_seconds;
    evaluation += count * estimate.evaluation_seconds;
    tokens += static_cast<int64_t>(count) * estimate.training_tokens;
    disk += static_cast<int64_t>(count) * estimate.disk_bytes;
  }
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

void Study::refuse_foreign_folder() const {
  if (!path_exists(folder()) || path_exists(folder() / "study.json")) return;
  if (!fs::is_directory(folder())) {
    fail(ErrorCode::kInvalidArgument, "{} exists and is no folder; choose another output", folder().string());
  }
  if (!fs::is_empty(folder())) {
    fail(ErrorCode::kInvalidArgument, "{} holds files but no study; choose another output",
         folder().string());
  }
}

void Study::write_plan() const {
  Json json;
  json["format"] = "calyrex-study-plan";
  json["version"] = 1;
  json["name"] = settings().name;
  json["model"] = model_->name();
  const weights::ModelConfig& config = model_->config();
  json["backbone"]["layers"] = config.num_layers;
  json["backbone"]["hidden_size"] = config.hidden_size;
  int64_t parameters = 0;
  for (const auto& tensor : weights::expected_tensors(config)) {
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    parameters += count;
  }
  json["backbone"]["parameters"] = parameters;
  json["settings"] = write_fields(settings());
  json["eval"] = Json::array();
  for (const CheckedEval& eval : evals_) {
    const eval::TaskInfo& info = eval::find_task(eval.entry.task).info();
    json["eval"].push_back({{"name", eval.entry.name},
                            {"task", eval.entry.task},
                            {"measures", info.measures},
                            {"headline", info.headline},
                            {"only", eval.entry.only}});
  }
  json["runs"] = plan_to_json(runs_);
  write_file_atomically(folder() / "study.json", to_json_text(json));
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

Unit Study::candidate_of(const Selection& selection, double rate) const {
  Unit unit = unit_of(*selection.reference, rate);
  unit.name = fmt::format("{}-lr{}", selection.kind, rate);
  unit.folder = folder() / "select" / unit.name;
  unit.evals = {&*select_eval_};
  return unit;
}

/// What the selection's evaluation gives with a learning rate; the candidate is worked out by whichever
/// process comes first.
Json Study::candidate_metrics(const Selection& selection, double rate) {
  constexpr std::chrono::seconds kPoll{2};
  const Unit unit = candidate_of(selection, rate);
  std::optional<Json> result = run_unit(unit, rows_);
  while (!result) {
    check_interrupt();
    std::this_thread::sleep_for(kPoll);
    result = run_unit(unit, rows_);
  }
  return (*result)["eval"][0]["results"]["metrics"];
}

double Study::selected_metric(const Json& metrics) const {
  const std::string& metric = settings().select.metric;
  if (metrics.contains(metric)) return metrics.at(metric).at("value").get<double>();
  std::vector<std::string> known;
  for (const auto& [name, value] : metrics.items()) known.push_back(name);
  fail(ErrorCode::kInvalidArgument, "{}: select.metric '{}' is none of {}'s metrics; it has {}",
       request_.path.string(), metric, settings().select.on.task, fmt::join(known, ", "));
}

void Study::select_rate(Selection& selection) {
  std::optional<double> best;
  std::optional<Error> failure;
  Json tried = Json::array();
  for (const double rate : settings().select.learning_rate) {
    Json metrics;
    try {
      metrics = candidate_metrics(selection, rate);
    } catch (const Error& error) {
      // A rate that makes training diverge is not chosen; the others still may be.
      if (error.code() != ErrorCode::kInvalidArgument) throw;
      log_warning("select: {} with learning rate {} failed: {}", selection.kind, rate, error.what());
      tried.push_back({{"learning_rate", rate}, {"value", nullptr}, {"error", error.what()}});
      failure = error;
      continue;
    }
    const double value = selected_metric(metrics);
    tried.push_back({{"learning_rate", rate}, {"value", value}});
    log_info("select: {} with learning rate {}: {} = {:.4f}", selection.kind, rate, settings().select.metric,
             value);
    if (best && value <= *best) continue;
    best = value;
    selection.chosen = rate;
  }
  if (!selection.chosen) throw *failure;
  Json json = {{"kind", selection.kind},
               {"reference", selection.reference->name},
               {"metric", settings().select.metric},
               {"chosen", *selection.chosen},
               {"tried", tried}};
  write_file_atomically(folder() / "select" / (selection.kind + ".json"), to_json_text(json));
  log_info("select: {} trains with learning rate {}", selection.kind, *selection.chosen);
}

void Study::select_rates() {
  for (Selection& selection : selections_) {
    check_interrupt();
    select_rate(selection);
  }
}

std::optional<double> Study::rate_of(const PlannedRun& run) const {
  if (!run.chooses_rate) return std::nullopt;
  for (const Selection& selection : selections_) {
    if (selection.kind == run.kind) return selection.chosen;
  }
  return std::nullopt;
}

void Study::run_all() {
  for (size_t i = 0; i < runs_.size(); ++i) {
    if (!runs_[i].runs() || static_cast<int64_t>(i) % request_.num_shards != request_.shard) continue;
    check_interrupt();
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
    const Unit unit = unit_of(run, rate_of(run));
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
