// Two runs over the same samples: paired differences, and which samples flipped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/data/statistics.h"

namespace calyrex::eval {

/// One score over the samples that both runs have. Differences are second minus first.
struct ScoreDifference {
  std::string score;
  int64_t pairs = 0;
  double first = 0.0;  // means
  double second = 0.0;
  data::Estimate difference;  // bootstrap over pairs, 95 %
  /// For a score that is 0 or 1 everywhere: samples that only one run passes (ids, in order), exact McNemar
  /// test, and its p-value corrected by Holm over all such scores of the comparison.
  struct Flips {
    std::vector<std::string> gained;
    std::vector<std::string> lost;
    double p_value = 1.0;
    double p_holm = 1.0;
  };
  std::optional<Flips> flips;
};

struct RunComparison {
  std::string task;
  std::string first;  // names of the two, as tables show them
  std::string second;
  int64_t only_first = 0;  // samples graded in one run alone
  int64_t only_second = 0;
  std::vector<std::string> warnings;  // settings that differ though they should not
  std::vector<ScoreDifference> scores;
  std::string main_score;  // whose flips are listed first; empty when no score is 0 or 1
};

/// Compares two result folders (with results.json and samples.jsonl), or two folders that hold some: then
/// those of equal relative path. Throws kNotFound when there are none, kInvalidArgument for results of
/// different tasks or without a common sample, kCorruptData for damaged files.
std::vector<RunComparison> compare_runs(const std::filesystem::path& first,
                                        const std::filesystem::path& second);
/// Compares two result folders.
RunComparison compare_results(const std::filesystem::path& first, const std::filesystem::path& second);
/// Corrects the p-values of comparisons that are read together.
void adjust_p_values(std::vector<RunComparison>& comparisons);

Json comparison_to_json(const RunComparison& comparison);
/// For a terminal; at most `max_flips` ids a direction.
std::string format_comparison(const RunComparison& comparison, size_t max_flips);

}  // namespace calyrex::eval
