#include "calyrex/study/results/differences.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/data/grader.h"
#include "calyrex/data/seed_bootstrap.h"
#include "calyrex/eval/core/significance.h"
#include "calyrex/eval/run/run_folder.h"
#include "calyrex/study/results/collect.h"
#include "calyrex/study/results/stored.h"

namespace calyrex::study {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBootstrapSeed = 0;
constexpr double kSignificant = 0.05;

/// One sample's main score in one run.
struct Score {
  std::string rule;  // empty: no groups
  double value = 0.0;
};
using RunScores = std::map<std::string, Score>;  // by sample id, of one axis

/// Runs that differ in their seed alone.
struct Setting {
  std::string name;
  std::string kind;
  std::string placement;
  std::vector<Json> seeds;
  std::vector<std::string> runs;  // folders
  bool repeats = true;            // another setting's runs under a second name, all of them

  int64_t num_seeds() const { return kind == "base" ? 0 : static_cast<int64_t>(runs.size()); }
};

std::vector<Setting> read_settings(const Json& study) {
  std::vector<Setting> settings;
  for (const Json& run : study["runs"]) {
    if (run["status"] != "finished") continue;
    const std::string name = run["setting"].get<std::string>();
    auto found = std::ranges::find_if(settings, [&](const Setting& other) { return other.name == name; });
    if (found == settings.end()) {
      settings.push_back(
          {.name = name, .kind = run["kind"].get<std::string>(), .placement = {}, .seeds = {}});
      found = std::prev(settings.end());
      if (run["placement"].is_string()) found->placement = run["placement"].get<std::string>();
    }
    found->seeds.push_back(run["seed"]);
    const bool repeats = !run["same_as"].is_null();
    found->repeats = found->repeats && repeats;
    found->runs.push_back((repeats ? run["same_as"] : run["name"]).get<std::string>());
  }
  return settings;
}

/// The first headline metric that samples carry by that name.
std::optional<std::string> main_score(const Json& headline,
                                      const std::map<std::string, eval::Outcome>& outcomes) {
  std::set<std::string> names;
  for (const auto& [id, outcome] : outcomes) {
    for (const auto& [name, value] : outcome.verdict.scores) names.insert(name);
  }
  for (const Json& metric : headline) {
    const std::string name = split_metric(metric.get<std::string>()).first;
    if (names.contains(name)) return name;
  }
  return names.empty() ? std::nullopt : std::optional(*names.begin());
}

std::string text_of(const Json& detail, const char* key) {
  return detail.contains(key) && detail[key].is_string() ? detail[key].get<std::string>() : std::string();
}

/// One evaluation of all runs, axis by axis.
struct EvaluationScores {
  std::string name;
  std::string score;
  std::vector<std::string> axes;                                   // in the samples' order
  std::map<std::string, std::map<std::string, RunScores>> by_run;  // run, axis
};

void add_outcomes(const std::map<std::string, eval::Outcome>& outcomes, const std::string& run,
                  EvaluationScores& scores) {
  for (const auto& [id, outcome] : outcomes) {
    const auto found = outcome.verdict.scores.find(scores.score);
    if (!outcome.graded() || found == outcome.verdict.scores.end()) continue;
    const std::string axis = text_of(outcome.verdict.detail, "axis");
    if (std::ranges::find(scores.axes, axis) == scores.axes.end()) scores.axes.push_back(axis);
    scores.by_run[run][axis][id] = {.rule = text_of(outcome.verdict.detail, "rule"), .value = found->second};
  }
}

std::map<std::string, eval::Outcome> read_outcomes(const fs::path& run, const Json& entry) {
  const std::string remedy =
      fmt::format("remove {}, and 'calyrex study run' evaluates the run again from its kept answers",
                  (run / "result.json").string());
  return eval::read_outcomes(run / entry["folder"].get<std::string>(), entry["results"], remedy);
}

EvaluationScores read_evaluation(const fs::path& folder, const Json& evaluation,
                                 const std::vector<Setting>& settings) {
  EvaluationScores scores;
  scores.name = evaluation["name"].get<std::string>();
  for (const Setting& setting : settings) {
    for (const std::string& run : setting.runs) {
      if (scores.by_run.contains(run)) continue;
      const fs::path own = folder / "runs" / run;
      const Json result = read_stored_result(own / "result.json");
      for (const Json& entry : result["eval"]) {
        if (entry["name"] != scores.name) continue;
        const auto outcomes = read_outcomes(own, entry);
        if (scores.score.empty()) scores.score = main_score(evaluation["headline"], outcomes).value_or("");
        add_outcomes(outcomes, run, scores);
      }
    }
  }
  return scores;
}

/// Scores of several settings over the samples that all their runs have.
struct Matrix {
  std::vector<data::SeedScores> settings;
  data::SampleGroups groups;
  int64_t samples = 0;
};

Matrix make_matrix(const EvaluationScores& scores, const std::string& axis,
                   const std::vector<const Setting*>& settings) {
  Matrix matrix;
  std::vector<std::vector<const RunScores*>> runs;
  for (const Setting* setting : settings) {
    runs.emplace_back();
    for (const std::string& run : setting->runs) {
      const auto found = scores.by_run.find(run);
      if (found == scores.by_run.end() || !found->second.contains(axis)) return matrix;
      runs.back().push_back(&found->second.at(axis));
    }
  }
  std::map<std::string, std::vector<size_t>> groups;
  std::vector<std::string> ids;
  for (const auto& [id, score] : *runs.front().front()) {
    const bool everywhere = std::ranges::all_of(runs, [&](const auto& list) {
      return std::ranges::all_of(list, [&](const RunScores* run) { return run->contains(id); });
    });
    if (!everywhere) continue;
    groups[score.rule].push_back(ids.size());
    ids.push_back(id);
  }
  for (const auto& list : runs) {
    data::SeedScores rows;
    for (const RunScores* run : list) {
      rows.emplace_back();
      for (const std::string& id : ids) rows.back().push_back(run->at(id).value);
    }
    matrix.settings.push_back(std::move(rows));
  }
  for (auto& [rule, columns] : groups) matrix.groups.push_back(std::move(columns));
  matrix.samples = static_cast<int64_t>(ids.size());
  return matrix;
}

Json describe(const Setting& setting) {
  Json json;
  json["setting"] = setting.name;
  json["kind"] = setting.kind;
  json["placement"] = setting.placement.empty() ? Json() : Json(setting.placement);
  json["seeds"] = setting.num_seeds() == 0 ? Json::array() : Json(setting.seeds);
  return json;
}

void add_main_scores(const EvaluationScores& scores, const std::string& axis,
                     const std::vector<Setting>& settings, Json& list) {
  for (const Setting& setting : settings) {
    const Matrix matrix = make_matrix(scores, axis, {&setting});
    if (matrix.samples == 0) continue;
    Json json = describe(setting);
    json["evaluation"] = scores.name;
    json["score"] = scores.score;
    json["axis"] = axis;
    json["samples"] = matrix.samples;
    json.update(data::estimate_to_json(data::seed_mean(matrix.settings[0], matrix.groups, kBootstrapSeed)));
    list.push_back(std::move(json));
  }
}

/// Which settings are compared.
class Pairing {
 public:
  explicit Pairing(const Json& settings) {
    if (const auto named = settings.find("baselines"); named != settings.end())
      named_ = named->get<std::vector<std::string>>();
  }

  bool compares(const Setting& setting, const Setting& baseline) const {
    if (setting.kind == "base" || setting.repeats || &setting == &baseline) return false;
    if (!named_.empty()) return is_named(baseline) && !is_named(setting);
    if (baseline.kind == "base") return true;
    const bool other_kind =
        baseline.kind == "lora" || baseline.kind == "parallel_mlp" || baseline.kind == "full";
    return setting.kind == "cal" && other_kind && !baseline.repeats;
  }

 private:
  bool is_named(const Setting& setting) const { return std::ranges::count(named_, setting.name) > 0; }

  std::vector<std::string> named_;
};

/// What a difference may be called.
std::string word_for(const Setting& setting, const Setting& baseline, const data::SeedDifference& difference,
                     double p_holm) {
  const std::string direction = difference.difference.value > 0.0 ? "higher" : "lower";
  const bool noise = p_holm >= kSignificant || difference.difference.value == 0.0;
  const bool one_seed = setting.num_seeds() == 1 || baseline.num_seeds() == 1;
  if (noise) return one_seed ? "within noise, one seed" : "within noise";
  return one_seed ? direction + ", but from one seed" : direction;
}

/// Draws that let a corrected p fall below 0.05 in a table of so many comparisons: the smallest p is two over
/// them.
int64_t draws_for(size_t comparisons) {
  constexpr int64_t kLeast = 4000, kEach = 200;
  return std::max(kLeast, kEach * static_cast<int64_t>(comparisons));
}

/// One table: an evaluation on one axis.
void add_comparisons(const EvaluationScores& scores, const std::string& axis,
                     const std::vector<Setting>& settings, const Pairing& pairing, Json& list) {
  struct Pair {
    const Setting* setting;
    const Setting* baseline;
    Matrix matrix;
    data::SeedDifference difference;
  };
  std::vector<Pair> pairs;
  for (const Setting& setting : settings) {
    for (const Setting& baseline : settings) {
      if (!pairing.compares(setting, baseline)) continue;
      Matrix matrix = make_matrix(scores, axis, {&baseline, &setting});
      if (matrix.samples == 0) continue;
      pairs.push_back(
          {.setting = &setting, .baseline = &baseline, .matrix = std::move(matrix), .difference = {}});
    }
  }
  std::vector<double> p_values;
  for (Pair& pair : pairs) {
    const Matrix& matrix = pair.matrix;
    pair.difference = data::seed_difference(matrix.settings[0], matrix.settings[1], matrix.groups,
                                            kBootstrapSeed, draws_for(pairs.size()));
    p_values.push_back(pair.difference.p_value);
  }
  const std::vector<double> adjusted = eval::holm_adjust(p_values);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Pair& pair = pairs[i];
    Json json = describe(*pair.setting);
    json["baseline"] = pair.baseline->name;
    json["baseline_kind"] = pair.baseline->kind;
    json["baseline_seeds"] = describe(*pair.baseline)["seeds"];
    json["evaluation"] = scores.name;
    json["score"] = scores.score;
    json["axis"] = axis;
    json["samples"] = pair.matrix.samples;
    json["difference"] = data::estimate_to_json(pair.difference.difference);
    json["p"] = pair.difference.p_value;
    json["p_holm"] = adjusted[i];
    json["word"] = word_for(*pair.setting, *pair.baseline, pair.difference, adjusted[i]);
    list.push_back(std::move(json));
  }
}

}  // namespace

void add_differences(const fs::path& folder, Json& study) {
  const std::vector<Setting> settings = read_settings(study);
  const Pairing pairing(study["settings"]);
  for (const Json& evaluation : study["evaluations"]) {
    const EvaluationScores scores = read_evaluation(folder, evaluation, settings);
    for (const std::string& axis : scores.axes) {
      add_main_scores(scores, axis, settings, study["main_scores"]);
      add_comparisons(scores, axis, settings, pairing, study["comparisons"]);
    }
  }
}

}  // namespace calyrex::study
