// Intervals for shares and means, as tables print them.
#pragma once

#include <cstdint>
#include <vector>

namespace calyrex::data {

/// A value with its 95 % interval.
struct Estimate {
  double value = 0.0;
  double low = 0.0;
  double high = 0.0;
};

/// Sets the interval to the middle 95 % of resampled values, which are sorted for it; none is a bug.
void set_percentile_interval(Estimate& estimate, std::vector<double>& values);

/// Share of `passed` among `total` with Wilson's score interval (Wilson 1927); total 0 gives 0 in [0, 1].
Estimate wilson_share(int64_t passed, int64_t total);

/// Passed and total of one group.
struct GroupCount {
  int64_t passed = 0;
  int64_t total = 0;
};

/// Unweighted mean of the groups' shares, the groups being fixed and independent. The interval joins their
/// Wilson intervals (MOVER; Zou and Donner 2008): low = mean - sqrt(sum (p - low)^2) / k, likewise high. No
/// group: 0 in [0, 1].
Estimate mean_of_shares(const std::vector<GroupCount>& groups);

/// Unweighted mean over groups of each group's mean, with a percentile interval of a seeded bootstrap that
/// draws rows within each group. For paired differences: the values are the rows' differences. Empty groups
/// are left out.
Estimate bootstrap_group_mean(const std::vector<std::vector<double>>& groups, uint64_t seed,
                              int64_t resamples = 4000);

/// What one cluster adds to a ratio: followed instructions and instructions of one prompt.
struct Cluster {
  double sum = 0.0;
  double weight = 0.0;
};

/// Sum of `sum` over sum of `weight`, with a percentile interval of a seeded bootstrap that draws whole
/// clusters. No weight at all: 0 in [0, 0].
Estimate bootstrap_ratio(const std::vector<Cluster>& clusters, uint64_t seed, int64_t resamples = 4000);

}  // namespace calyrex::data
