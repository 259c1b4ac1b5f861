#include "calyrex/eval/run/report.h"

#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/run/compare.h"
#include "calyrex/eval/run/results.h"

namespace calyrex::eval {
namespace {

/// Results of one task, in the order of the models.
using TaskResults = std::vector<const Json*>;

std::vector<std::pair<std::string, TaskResults>> by_task(const Json& runs) {
  std::vector<std::pair<std::string, TaskResults>> tasks;
  for (const Json& run : runs) {
    const std::string name = run.at("task").get<std::string>();
    if (tasks.empty() || tasks.back().first != name) tasks.push_back({name, {}});
    tasks.back().second.push_back(&run);
  }
  return tasks;
}

/// The task's headline metrics that any model has; all metrics when it names none.
std::vector<std::string> shown_metrics(const TaskResults& results) {
  std::vector<std::string> names;
  for (const Json& name : results.front()->at("headline")) {
    for (const Json* run : results) {
      if (run->at("metrics").contains(name.get<std::string>())) {
        names.push_back(name.get<std::string>());
        break;
      }
    }
  }
  if (!names.empty()) return names;
  for (const auto& [name, metric] : results.front()->at("metrics").items()) names.push_back(name);
  return names;
}

std::string cell(const Json& run, const std::string& metric) {
  if (run.value("unchanged_by_construction", false)) return "unchanged by construction";
  if (!run["metrics"].contains(metric)) return "-";
  return format_estimate(metric_from_json(run["metrics"][metric], metric));
}

std::string task_table(const std::string& task, const TaskResults& results) {
  const Json& first = *results.front();
  std::string text =
      fmt::format("## {}\n\nform {}, seed {}, {} samples\n\n", task, first.value("form", "?"),
                  to_json_line(first.value("seed", Json())), to_json_line(first.value("samples", Json())));
  std::string rule = "|---|";
  text += "| metric |";
  for (const Json* run : results) {
    text += fmt::format(" {} |", run->value("subject", "?"));
    rule += "---:|";
  }
  text += "\n" + rule + "\n";
  for (const std::string& metric : shown_metrics(results)) {
    text += fmt::format("| {} |", metric);
    for (const Json* run : results) text += fmt::format(" {} |", cell(*run, metric));
    text += "\n";
  }
  for (const char* count : {"ungraded", "not_applicable", "unanswered", "truncated"}) {
    bool any = false;
    std::string row = fmt::format("| {} |", count);
    for (const Json* run : results) {
      const int64_t value = run->value(count, int64_t{0});
      any = any || value > 0;
      row += fmt::format(" {} |", value);
    }
    if (any) text += row + "\n";
  }
  return text + "\n";
}

std::string difference_table(const Json& comparisons) {
  std::string text =
      "## Differences from the base model\n\n"
      "Paired over samples: mean difference with its bootstrap interval; for scores of 0 and 1 the samples "
      "gained "
      "and lost, the exact McNemar test, and its p-value corrected by Holm over this table.\n\n"
      "| task | adapter | score | difference | gained | lost | p | p (Holm) "
      "|\n|---|---|---|---:|---:|---:|---:|---:|\n";
  for (const Json& comparison : comparisons) {
    for (const auto& [name, score] : comparison["scores"].items()) {
      const data::Estimate d = metric_from_json(score["difference"], name);
      text +=
          fmt::format("| {} | {} | {} | {:+.4f} [{:+.4f}, {:+.4f}] |", comparison["task"].get<std::string>(),
                      comparison["second"].get<std::string>(), name, d.value, d.low, d.high);
      if (score.contains("gained")) {
        text += fmt::format(" {} | {} | {:.2g} | {:.2g} |\n", score["gained"].size(), score["lost"].size(),
                            score["p_mcnemar"].get<double>(), score["p_holm"].get<double>());
      } else {
        text += " | | | |\n";
      }
    }
  }
  return text;
}

}  // namespace

std::string format_estimate(const data::Estimate& estimate) {
  if (!std::isfinite(estimate.value)) return "-";
  const bool share = estimate.low >= 0.0 && estimate.high <= 1.0;
  if (!share) return fmt::format("{:.3f} [{:.3f}, {:.3f}]", estimate.value, estimate.low, estimate.high);
  return fmt::format("{:.2f} % [{:.1f}, {:.1f}]", 100 * estimate.value, 100 * estimate.low,
                     100 * estimate.high);
}

Json make_report(const std::vector<Finished>& finished) {
  std::map<std::string, const Finished*> base;
  for (const Finished& run : finished) {
    if (run.results.value("subject", "") == "base") base[run.results.at("task").get<std::string>()] = &run;
  }
  std::vector<RunComparison> comparisons;
  Json report;
  report["runs"] = Json::array();
  for (const Finished& run : finished) {
    report["runs"].push_back(run.results);
    const auto found = base.find(run.results.at("task").get<std::string>());
    if (found == base.end() || found->second == &run) continue;
    if (run.results.at("n") == 0 || found->second->results.at("n") == 0) continue;
    comparisons.push_back(compare_results(found->second->folder, run.folder));
  }
  adjust_p_values(comparisons);
  report["comparisons"] = Json::array();
  for (const RunComparison& comparison : comparisons) {
    report["comparisons"].push_back(comparison_to_json(comparison));
  }
  return report;
}

std::string report_markdown(const Json& report) {
  std::string text = "# Evaluation\n\n";
  if (!report.at("runs").empty()) {
    const Json& model = report["runs"].front().value("model", Json());
    if (model.is_string()) text += fmt::format("Model: {}\n\n", model.get<std::string>());
  }
  for (const auto& [task, results] : by_task(report["runs"])) text += task_table(task, results);
  if (!report["comparisons"].empty()) text += difference_table(report["comparisons"]);
  return text;
}

}  // namespace calyrex::eval
