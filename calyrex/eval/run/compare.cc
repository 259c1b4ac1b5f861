#include "calyrex/eval/run/compare.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/data/grader.h"
#include "calyrex/eval/core/significance.h"
#include "calyrex/eval/run/run_folder.h"

namespace calyrex::eval {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBootstrapSeed = 0;

struct RunResult {
  Json results;
  std::map<std::string, Outcome> graded;
};

RunResult read_result(const fs::path& folder) {
  RunResult run{.results = read_json_file(folder / kResultsFile), .graded = {}};
  const bool complete = run.results.is_object() && run.results.contains("task") &&
                        run.results["task"].is_string() && run.results.contains("headline") &&
                        run.results["headline"].is_array();
  if (!complete) {
    fail(ErrorCode::kCorruptData, "{}: not results of an evaluation", (folder / kResultsFile).string());
  }
  run.graded = read_outcomes(folder, run.results,
                             "the same 'calyrex eval run' works it out again from its kept answers");
  std::erase_if(run.graded, [](const auto& entry) { return !entry.second.graded(); });
  return run;
}

std::vector<std::string> differing_settings(const Json& first, const Json& second) {
  std::vector<std::string> warnings;
  for (const char* key :
       {"form", "form_sha256", "shots", "max_new_tokens", "judge", "scorer_version", "data_sha256"}) {
    const Json a = first.contains(key) ? first[key] : Json();
    const Json b = second.contains(key) ? second[key] : Json();
    if (a != b) {
      warnings.push_back(fmt::format("{} differs: {} and {}", key, to_json_line(a), to_json_line(b)));
    }
  }
  return warnings;
}

std::string run_name(const Json& results, const fs::path& folder) {
  if (results.contains("subject") && results["subject"].is_string())
    return results["subject"].get<std::string>();
  return folder.filename().string();
}

/// A sample that both runs have graded.
struct Pair {
  const std::string* id;
  const Verdict* first;
  const Verdict* second;
};

std::optional<ScoreDifference> compare_score(const std::string& name, const std::vector<Pair>& pairs) {
  ScoreDifference result;
  result.score = name;
  ScoreDifference::Flips flips;
  std::vector<double> differences;
  bool binary = true;
  for (const Pair& pair : pairs) {
    const auto first = pair.first->scores.find(name);
    const auto second = pair.second->scores.find(name);
    if (first == pair.first->scores.end() || second == pair.second->scores.end()) continue;
    const double a = first->second;
    const double b = second->second;
    binary = binary && (a == 0.0 || a == 1.0) && (b == 0.0 || b == 1.0);
    result.first += a;
    result.second += b;
    differences.push_back(b - a);
    if (b > a) flips.gained.push_back(*pair.id);
    if (b < a) flips.lost.push_back(*pair.id);
  }
  const bool all_equal = flips.gained.empty() && flips.lost.empty();
  // Counts of a sample's parts are the same in every run.
  if (differences.empty() || (all_equal && !binary)) return std::nullopt;
  result.pairs = static_cast<int64_t>(differences.size());
  result.first /= static_cast<double>(result.pairs);
  result.second /= static_cast<double>(result.pairs);
  result.difference = data::bootstrap_group_mean({differences}, kBootstrapSeed);
  if (binary) {
    flips.p_value =
        mcnemar_exact(static_cast<int64_t>(flips.lost.size()), static_cast<int64_t>(flips.gained.size()));
    flips.p_holm = flips.p_value;
    result.flips = std::move(flips);
  }
  return result;
}

/// The first headline that is a 0/1 score, else the first 0/1 score.
std::string choose_main_score(const std::vector<ScoreDifference>& scores, const Json& headline) {
  for (const Json& name : headline) {
    for (const ScoreDifference& score : scores) {
      if (score.flips && name == score.score) return score.score;
    }
  }
  for (const ScoreDifference& score : scores) {
    if (score.flips) return score.score;
  }
  return {};
}

/// Result folders below a folder, by relative path.
std::set<fs::path> find_results(const fs::path& folder) {
  constexpr int kMaxDepth = 3;
  if (!path_exists(folder)) fail(ErrorCode::kNotFound, "{}: no such folder", folder.string());
  std::set<fs::path> found;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry.depth() >= kMaxDepth) entry.disable_recursion_pending();
    if (entry->path().filename() == kResultsFile)
      found.insert(fs::relative(entry->path().parent_path(), folder));
  }
  if (found.empty()) fail(ErrorCode::kNotFound, "{}: no results.json in it", folder.string());
  return found;
}

std::string id_list(const std::vector<std::string>& ids, size_t max) {
  std::string text;
  for (size_t i = 0; i < std::min(ids.size(), max); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ids[i]);
  if (ids.size() > max) text += fmt::format(", ... ({} more)", ids.size() - max);
  return text;
}

}  // namespace

RunComparison compare_results(const fs::path& first_folder, const fs::path& second_folder) {
  const RunResult first = read_result(first_folder);
  const RunResult second = read_result(second_folder);
  if (first.results["task"] != second.results["task"]) {
    fail(ErrorCode::kInvalidArgument, "{} is of task {}, {} of task {}; they have no sample in common",
         first_folder.string(), to_json_line(first.results["task"]), second_folder.string(),
         to_json_line(second.results["task"]));
  }
  RunComparison comparison;
  comparison.task = first.results["task"].get<std::string>();
  comparison.first = run_name(first.results, first_folder);
  comparison.second = run_name(second.results, second_folder);
  comparison.warnings = differing_settings(first.results, second.results);
  std::vector<Pair> pairs;
  std::set<std::string> names;
  for (const auto& [id, outcome] : first.graded) {
    const auto found = second.graded.find(id);
    if (found == second.graded.end()) {
      ++comparison.only_first;
      continue;
    }
    pairs.push_back({.id = &id, .first = &outcome.verdict, .second = &found->second.verdict});
    for (const auto& [name, value] : outcome.verdict.scores) names.insert(name);
  }
  comparison.only_second = static_cast<int64_t>(second.graded.size() - pairs.size());
  if (pairs.empty()) {
    fail(ErrorCode::kInvalidArgument, "{} and {} have no graded sample in common", first_folder.string(),
         second_folder.string());
  }
  for (const std::string& name : names) {
    if (auto score = compare_score(name, pairs)) comparison.scores.push_back(std::move(*score));
  }
  comparison.main_score = choose_main_score(comparison.scores, first.results["headline"]);
  return comparison;
}

void adjust_p_values(std::vector<RunComparison>& comparisons) {
  std::vector<ScoreDifference::Flips*> tests;
  std::vector<double> p_values;
  for (RunComparison& comparison : comparisons) {
    for (ScoreDifference& score : comparison.scores) {
      if (!score.flips) continue;
      tests.push_back(&*score.flips);
      p_values.push_back(score.flips->p_value);
    }
  }
  const std::vector<double> adjusted = holm_adjust(p_values);
  for (size_t i = 0; i < tests.size(); ++i) tests[i]->p_holm = adjusted[i];
}

std::vector<RunComparison> compare_runs(const fs::path& first, const fs::path& second) {
  std::vector<RunComparison> comparisons;
  if (path_exists(first / kResultsFile) && path_exists(second / kResultsFile)) {
    comparisons.push_back(compare_results(first, second));
  } else {
    const std::set<fs::path> there = find_results(second);
    for (const fs::path& relative : find_results(first)) {
      if (there.contains(relative))
        comparisons.push_back(compare_results(first / relative, second / relative));
    }
    if (comparisons.empty()) {
      fail(ErrorCode::kInvalidArgument,
           "{} and {} hold no results under the same name; name two folders that hold results.json",
           first.string(), second.string());
    }
  }
  adjust_p_values(comparisons);
  return comparisons;
}

Json comparison_to_json(const RunComparison& comparison) {
  Json json;
  json["task"] = comparison.task;
  json["first"] = comparison.first;
  json["second"] = comparison.second;
  json["only_first"] = comparison.only_first;
  json["only_second"] = comparison.only_second;
  json["warnings"] = comparison.warnings;
  json["main_score"] = comparison.main_score;
  json["scores"] = Json::object();
  for (const ScoreDifference& score : comparison.scores) {
    Json& entry = json["scores"][score.score];
    entry["pairs"] = score.pairs;
    entry["first"] = score.first;
    entry["second"] = score.second;
    entry["difference"] = data::estimate_to_json(score.difference);
    if (!score.flips) continue;
    entry["gained"] = score.flips->gained;
    entry["lost"] = score.flips->lost;
    entry["p_mcnemar"] = score.flips->p_value;
    entry["p_holm"] = score.flips->p_holm;
  }
  return json;
}

std::string format_comparison(const RunComparison& comparison, size_t max_flips) {
  std::string text = fmt::format("{}: {} against {}\n", comparison.task, comparison.second, comparison.first);
  for (const std::string& warning : comparison.warnings) text += fmt::format("  warning: {}\n", warning);
  if (comparison.only_first > 0 || comparison.only_second > 0) {
    text += fmt::format("  left out: {} samples that only {} has, {} that only {} has\n",
                        comparison.only_first, comparison.first, comparison.only_second, comparison.second);
  }
  text += fmt::format("  {:<36} {:>6} {:>9} {:>9} {:>28} {:>12} {:>8} {:>8}\n", "score", "pairs", "first",
                      "second", "difference [95 %]", "gained/lost", "p", "p Holm");
  for (const ScoreDifference& score : comparison.scores) {
    const data::Estimate& d = score.difference;
    text += fmt::format("  {:<36} {:>6} {:>9.4f} {:>9.4f} {:>28}", score.score, score.pairs, score.first,
                        score.second, fmt::format("{:+.4f} [{:+.4f}, {:+.4f}]", d.value, d.low, d.high));
    if (score.flips) {
      text += fmt::format(" {:>12} {:>8.2g} {:>8.2g}",
                          fmt::format("+{} -{}", score.flips->gained.size(), score.flips->lost.size()),
                          score.flips->p_value, score.flips->p_holm);
    }
    text += "\n";
  }
  for (const ScoreDifference& score : comparison.scores) {
    if (score.score != comparison.main_score) continue;
    text += fmt::format("  {} gained: {}\n", score.score, id_list(score.flips->gained, max_flips));
    text += fmt::format("  {} lost: {}\n", score.score, id_list(score.flips->lost, max_flips));
  }
  return text;
}

}  // namespace calyrex::eval
