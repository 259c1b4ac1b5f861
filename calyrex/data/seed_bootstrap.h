// Means over seeds and samples at once, and paired differences between two such means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "calyrex/data/statistics.h"

namespace calyrex::data {

/// Scores of what was trained with several seeds, on the same samples: a row a seed, a column a sample. A
/// model without a seed has one row.
using SeedScores = std::vector<std::vector<double>>;

/// Columns by group (rules, subjects): the mean over groups is unweighted. Every column is in one group.
using SampleGroups = std::vector<std::vector<size_t>>;

/// Mean with a percentile interval of a seeded bootstrap that draws seeds, and samples within their groups,
/// with replacement. A group of one sample would never vary: where there is one, samples are drawn from all.
Estimate seed_mean(const SeedScores& scores, const SampleGroups& groups, uint64_t seed,
                   int64_t resamples = 4000);

struct SeedDifference {
  Estimate difference;   // second minus first
  double p_value = 1.0;  // two-sided, from the bootstrap: 2 min(P(d <= 0), P(d >= 0))
};

/// The same for a difference: each draw takes the same samples of both, and seeds of each by themselves.
SeedDifference seed_difference(const SeedScores& first, const SeedScores& second, const SampleGroups& groups,
                               uint64_t seed, int64_t resamples = 4000);

}  // namespace calyrex::data
