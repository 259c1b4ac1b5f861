#include "calyrex/study/rates.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/log.h"
#include "calyrex/train/signals.h"

namespace calyrex::study {

RateChoice::RateChoice(Options options, const std::vector<PlannedRun>& runs) : options_(std::move(options)) {
  for (const PlannedRun& run : runs) {
    const bool known = std::ranges::find(kinds_, run.kind, &Kind::name) != kinds_.end();
    if (run.runs() && run.chooses_rate && !known)
      kinds_.push_back({.name = run.kind, .reference = &run, .chosen = {}});
  }
}

Unit RateChoice::candidate_of(const Kind& kind, double rate) const {
  Unit unit = options_.unit_of(*kind.reference, rate);
  unit.name = fmt::format("{}-lr{}", kind.name, rate);
  unit.folder = options_.folder / unit.name;
  unit.evals = {&options_.eval};
  unit.is_candidate = true;
  return unit;
}

void RateChoice::for_each_unfinished(const std::function<void(const PlannedRun& run)>& candidate) const {
  for (const Kind& kind : kinds_) {
    for (const double rate : options_.settings.learning_rate) {
      const Unit unit = candidate_of(kind, rate);
      if (!finished_result(unit) && !kept_failure(unit)) candidate(*kind.reference);
    }
  }
}

/// What the evaluation gives; the candidate is worked out by whichever process comes first.
Json RateChoice::metrics_of(const Unit& candidate, train::EncodedRowsCache& rows) const {
  constexpr std::chrono::seconds kPoll{2};
  std::optional<Json> result = run_unit(candidate, rows);
  while (!result) {
    train::StopSignals::check();
    std::this_thread::sleep_for(kPoll);
    result = run_unit(candidate, rows);
  }
  for (const Json& entry : (*result)["eval"]) {
    if (entry["name"] == options_.eval.entry.name) return entry["results"]["metrics"];
  }
  fail(ErrorCode::kInternal, "{}: no evaluation '{}'", candidate.folder.string(), options_.eval.entry.name);
}

double RateChoice::chosen_metric(const Json& metrics) const {
  const std::string& metric = options_.settings.metric;
  if (metrics.contains(metric) && metrics[metric]["value"].is_number())
    return metrics[metric]["value"].get<double>();
  std::vector<std::string> known;
  for (const auto& [name, value] : metrics.items()) known.push_back(name);
  fail(ErrorCode::kInvalidArgument, "select.metric: {} gave no '{}'; it gave {}", options_.settings.on.task,
       metric, fmt::join(known, ", "));
}

void RateChoice::choose(Kind& kind, train::EncodedRowsCache& rows) const {
  std::optional<double> best;
  std::string failures;
  Json tried = Json::array();
  for (const double rate : options_.settings.learning_rate) {
    const Unit candidate = candidate_of(kind, rate);
    double value = 0.0;
    try {
      value = chosen_metric(metrics_of(candidate, rows));
    } catch (const Error& error) {
      // A rate that makes training diverge is not chosen; the others still may be.
      if (!kept_failure(candidate)) throw;
      log_warning("select: {} with learning rate {} failed: {}", kind.name, rate, error.what());
      tried.push_back({{"learning_rate", rate}, {"value", nullptr}, {"error", error.what()}});
      failures += fmt::format("{}{}: {}", failures.empty() ? "" : "; ", rate, error.what());
      continue;
    }
    tried.push_back({{"learning_rate", rate}, {"value", value}});
    log_info("select: {} with learning rate {}: {} = {:.4f}", kind.name, rate, options_.settings.metric,
             value);
    if (best && value <= *best) continue;
    best = value;
    kind.chosen = rate;
  }
  if (!kind.chosen) {
    fail(ErrorCode::kInvalidArgument, "select: {} could be trained with none of the learning rates ({})",
         kind.name, failures);
  }
  Json json = {{"kind", kind.name},
               {"reference", kind.reference->name},
               {"metric", options_.settings.metric},
               {"chosen", *kind.chosen},
               {"tried", tried}};
  write_file_atomically(options_.folder / (kind.name + ".json"), to_json_text(json));
  log_info("select: {} trains with learning rate {}", kind.name, *kind.chosen);
}

void RateChoice::choose(train::EncodedRowsCache& rows) {
  for (Kind& kind : kinds_) {
    train::StopSignals::check();
    choose(kind, rows);
  }
}

std::optional<double> RateChoice::rate_of(const PlannedRun& run) const {
  const auto kind = std::ranges::find(kinds_, run.kind, &Kind::name);
  return run.chooses_rate && kind != kinds_.end() ? kind->chosen : std::nullopt;
}

std::filesystem::path RateChoice::twin_of(const PlannedRun& run) const {
  const auto kind = std::ranges::find(kinds_, run.kind, &Kind::name);
  if (kind == kinds_.end() || kind->reference->name != run.name || !kind->chosen) return {};
  return candidate_of(*kind, *kind->chosen).folder;
}

}  // namespace calyrex::study
