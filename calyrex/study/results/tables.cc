#include "calyrex/study/results/tables.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "calyrex/base/log.h"
#include "calyrex/eval/run/report.h"
#include "calyrex/eval/run/results.h"

namespace calyrex::study {
namespace {

std::string csv_cell(const Json& value) {
  if (value.is_null()) return "";
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string text_or(const Json& json, const char* key, const std::string& other) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return other;
  return found->is_string() ? found->get<std::string>() : found->dump();
}

std::string duration_or_dash(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number() ? format_duration(json[key].get<double>()) : "-";
}

std::string seeds_text(const Json& seeds) {
  std::string text;
  for (const Json& seed : seeds) text += (text.empty() ? "" : " ") + seed.dump();
  return text.empty() ? "-" : text;
}

std::string run_table(const Json& runs) {
  std::string text =
      "## Runs\n\n| run | placement | arm | trained parameters | learning rate | final loss | training | "
      "evaluation |\n|---|---|---|---:|---:|---:|---:|---:|\n";
  for (const Json& run : runs) {
    text += fmt::format("| {} | {} | {} | {} |", run["name"].get<std::string>(),
                        text_or(run, "placement", "-"), text_or(run, "arm", "-"), run["parameters"].dump());
    if (run["status"] == "not applicable") {
      text += fmt::format(" not applicable: {} | | | |\n", run["not_applicable"].get<std::string>());
    } else if (run["status"] == "missing") {
      text += " not run yet | | | |\n";
    } else if (!run["same_as"].is_null()) {
      text += fmt::format(" the same as {} | | | |\n", run["same_as"].get<std::string>());
    } else {
      const bool trained = run.contains("final_loss");
      text += fmt::format(" {} | {} | {} | {} |\n", text_or(run, "learning_rate", "-"),
                          trained ? fmt::format("{:.4f}", run["final_loss"].get<double>()) : "-",
                          duration_or_dash(run, "seconds"), duration_or_dash(run, "evaluation_seconds"));
    }
  }
  return text + "\n";
}

/// One evaluation's settings by axes.
std::string score_table(const Json& study, const Json& evaluation) {
  std::vector<std::string> axes, settings;
  const auto add = [](std::vector<std::string>& list, const std::string& text) {
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
  };
  std::string score;
  for (const Json& entry : study["main_scores"]) {
    if (entry["evaluation"] != evaluation["name"]) continue;
    add(axes, entry["axis"].get<std::string>());
    add(settings, entry["setting"].get<std::string>());
    score = entry["score"].get<std::string>();
  }
  if (settings.empty()) return "";
  std::string text =
      fmt::format("## {}: {}\n\n{}.\n\n| setting | seeds |", evaluation["name"].get<std::string>(), score,
                  evaluation.value("measures", ""));
  std::string rule = "|---|---|";
  for (const std::string& axis : axes) {
    text += fmt::format(" {} |", axis.empty() ? score : axis);
    rule += "---:|";
  }
  text += "\n" + rule + "\n";
  for (const std::string& setting : settings) {
    std::string cells, seeds = "-";
    for (const std::string& axis : axes) {
      std::string cell = "-";
      for (const Json& entry : study["main_scores"]) {
        if (entry["evaluation"] != evaluation["name"] || entry["setting"] != setting || entry["axis"] != axis)
          continue;
        cell = format_interval(entry);
        seeds = seeds_text(entry["seeds"]);
      }
      cells += fmt::format(" {} |", cell);
    }
    text += fmt::format("| {} | {} |{}\n", setting, seeds, cells);
  }
  return text + "\n";
}

std::string difference_table(const Json& comparisons) {
  if (comparisons.empty()) return "";
  std::string text =
      "## Differences\n\n"
      "Setting minus baseline, paired by sample: mean with its 95 % bootstrap interval over seeds and "
      "samples, "
      "two-sided p-value, and the same corrected by Holm over the comparisons of one evaluation and axis. "
      "Below "
      "0.05 a difference is called higher or lower, else within noise; from one seed it says nothing of "
      "training again.\n\n"
      "| evaluation | axis | setting | baseline | seeds | difference | p | p (Holm) | |\n"
      "|---|---|---|---|---|---:|---:|---:|---|\n";
  for (const Json& c : comparisons) {
    const data::Estimate d = eval::metric_from_json(c["difference"], "difference");
    text += fmt::format(
        "| {} | {} | {} | {} | {} / {} | {:+.3f} [{:+.3f}, {:+.3f}] | {:.2g} | {:.2g} | {} |\n",
        c["evaluation"].get<std::string>(), c["axis"].get<std::string>(), c["setting"].get<std::string>(),
        c["baseline"].get<std::string>(), seeds_text(c["seeds"]), seeds_text(c["baseline_seeds"]), d.value,
        d.low, d.high, c["p"].get<double>(), c["p_holm"].get<double>(), c["word"].get<std::string>());
  }
  return text + "\n";
}

std::string selection_table(const Json& selection) {
  if (selection.empty()) return "";
  std::string text =
      "## Learning rates\n\nChosen for each kind on development data, from one grid.\n\n"
      "| kind | metric | tried | chosen |\n|---|---|---|---:|\n";
  for (const Json& entry : selection) {
    std::string tried;
    for (const Json& one : entry["tried"]) {
      tried +=
          fmt::format("{}{}: {}", tried.empty() ? "" : ", ", one["learning_rate"].dump(),
                      one["value"].is_null() ? "failed" : fmt::format("{:.3f}", one["value"].get<double>()));
    }
    text += fmt::format("| {} | {} | {} | {} |\n", entry["kind"].get<std::string>(),
                        entry["metric"].get<std::string>(), tried, entry["chosen"].dump());
  }
  return text + "\n";
}

}  // namespace

std::string format_interval(const Json& estimate) {
  return eval::format_estimate(eval::metric_from_json(estimate, "results.json"));
}

std::string study_csv(const Json& study) {
  static constexpr const char* kColumns[] = {
      "run",        "setting", "kind",   "placement", "arm", "seed",  "parameters", "learning_rate",
      "evaluation", "task",    "metric", "axis",      "n",   "value", "low",        "high"};
  std::string text = "study";
  for (const char* column : kColumns) text += fmt::format(",{}", column);
  text += "\n";
  for (const Json& row : study["rows"]) {
    text += csv_cell(study["name"]);
    for (const char* column : kColumns) text += "," + csv_cell(row[column]);
    text += "\n";
  }
  return text;
}

std::string study_markdown(const Json& study) {
  std::string text =
      fmt::format("# {}\n\nModel: {} ({:.1f} million parameters).\n\n", study["name"].get<std::string>(),
                  study["model"].get<std::string>(), study["backbone"]["parameters"].get<double>() / 1e6);
  text += run_table(study["runs"]);
  text += selection_table(study["selection"]);
  for (const Json& evaluation : study["evaluations"]) text += score_table(study, evaluation);
  return text + difference_table(study["comparisons"]);
}

}  // namespace calyrex::study
