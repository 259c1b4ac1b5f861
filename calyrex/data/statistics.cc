#include "calyrex/data/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "calyrex/base/error.h"
#include "calyrex/base/random.h"

namespace calyrex::data {
namespace {

constexpr double kNormal975 = 1.959963984540054;  // 97.5 % point of the standard normal

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Linear interpolation between order statistics.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

void set_percentile_interval(Estimate& estimate, std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  estimate.low = quantile(values, 0.025);
  estimate.high = quantile(values, 0.975);
}

Estimate wilson_share(int64_t passed, int64_t total) {
  CALYREX_CHECK(passed >= 0 && passed <= total);
  if (total == 0) return {.value = 0.0, .low = 0.0, .high = 1.0};
  const double n = static_cast<double>(total);
  const double p = static_cast<double>(passed) / n;
  const double z2 = kNormal975 * kNormal975;
  const double center = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kNormal975 / (1 + z2 / n) * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  // At the ends the interval touches 0 or 1; rounding must not leave it a hair inside.
  return {
      .value = p, .low = passed == 0 ? 0.0 : center - half, .high = passed == total ? 1.0 : center + half};
}

Estimate mean_of_shares(const std::vector<GroupCount>& groups) {
  if (groups.empty()) return {.value = 0.0, .low = 0.0, .high = 1.0};
  double sum = 0.0;
  double below = 0.0;
  double above = 0.0;
  for (const GroupCount& group : groups) {
    const Estimate share = wilson_share(group.passed, group.total);
    sum += share.value;
    below += (share.value - share.low) * (share.value - share.low);
    above += (share.high - share.value) * (share.high - share.value);
  }
  const double k = static_cast<double>(groups.size());
  return {.value = sum / k,
          .low = std::max(0.0, (sum - std::sqrt(below)) / k),
          .high = std::min(1.0, (sum + std::sqrt(above)) / k)};
}

Estimate bootstrap_group_mean(const std::vector<std::vector<double>>& groups, uint64_t seed,
                              int64_t resamples) {
  CALYREX_CHECK(resamples > 0);
  std::vector<const std::vector<double>*> filled;
  for (const auto& group : groups) {
    if (!group.empty()) filled.push_back(&group);
  }
  if (filled.empty()) return {};
  const double k = static_cast<double>(filled.size());
  Estimate estimate;
  for (const auto* group : filled) estimate.value += mean_of(*group) / k;
  RandomStream random(seed, "bootstrap");
  std::vector<double> means;
  means.reserve(static_cast<size_t>(resamples));
  for (int64_t i = 0; i < resamples; ++i) {
    double mean = 0.0;
    for (const auto* group : filled) {
      double sum = 0.0;
      for (size_t j = 0; j < group->size(); ++j) sum += (*group)[random.below(group->size())];
      mean += sum / static_cast<double>(group->size()) / k;
    }
    means.push_back(mean);
  }
  set_percentile_interval(estimate, means);
  return estimate;
}

Estimate bootstrap_ratio(const std::vector<Cluster>& clusters, uint64_t seed, int64_t resamples) {
  CALYREX_CHECK(resamples > 0);
  Cluster whole;
  for (const Cluster& cluster : clusters) {
    whole.sum += cluster.sum;
    whole.weight += cluster.weight;
  }
  if (whole.weight <= 0.0) return {};
  Estimate estimate{.value = whole.sum / whole.weight};
  RandomStream random(seed, "bootstrap");
  std::vector<double> ratios;
  ratios.reserve(static_cast<size_t>(resamples));
  for (int64_t i = 0; i < resamples; ++i) {
    Cluster drawn;
    for (size_t j = 0; j < clusters.size(); ++j) {
      const Cluster& cluster = clusters[random.below(clusters.size())];
      drawn.sum += cluster.sum;
      drawn.weight += cluster.weight;
    }
    // A draw of weightless clusters alone says nothing.
    if (drawn.weight > 0.0) ratios.push_back(drawn.sum / drawn.weight);
  }
  set_percentile_interval(estimate, ratios);
  return estimate;
}

}  // namespace calyrex::data
