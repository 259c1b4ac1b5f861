#include "calyrex/eval/core/metrics.h"

#include "calyrex/base/error.h"

namespace calyrex::eval {
namespace {

/// Fixed: intervals must not change from run to run.
constexpr uint64_t kBootstrapSeed = 0;

const double* find_score(const Graded& graded, std::string_view name) {
  const auto found = graded.verdict.scores.find(std::string(name));
  return found == graded.verdict.scores.end() ? nullptr : &found->second;
}

}  // namespace

data::Estimate share_of(std::span<const Graded> graded, std::string_view score) {
  int64_t passed = 0;
  int64_t total = 0;
  for (const Graded& entry : graded) {
    if (const double* value = find_score(entry, score)) {
      passed += *value != 0.0;
      ++total;
    }
  }
  return data::wilson_share(passed, total);
}

Metrics all_shares(std::span<const Graded> graded) {
  Metrics metrics;
  for (const Graded& entry : graded) {
    for (const auto& [name, value] : entry.verdict.scores) metrics[name] = {};
  }
  for (auto& [name, estimate] : metrics) estimate = share_of(graded, name);
  return metrics;
}

data::Estimate mean_of(std::span<const Graded> graded, std::string_view score) {
  std::vector<double> values;
  for (const Graded& entry : graded) {
    if (const double* value = find_score(entry, score)) values.push_back(*value);
  }
  return data::bootstrap_group_mean({values}, kBootstrapSeed);
}

data::Estimate ratio_of(std::span<const Graded> graded, std::string_view part, std::string_view whole) {
  std::vector<data::Cluster> clusters;
  for (const Graded& entry : graded) {
    const double* weight = find_score(entry, whole);
    if (weight == nullptr) continue;
    const double* sum = find_score(entry, part);
    CALYREX_CHECK(sum != nullptr, "{} without {}", whole, part);
    clusters.push_back({.sum = *sum, .weight = *weight});
  }
  return data::bootstrap_ratio(clusters, kBootstrapSeed);
}

bool has_score(std::span<const Graded> graded, std::string_view score) {
  for (const Graded& entry : graded) {
    if (find_score(entry, score) != nullptr) return true;
  }
  return false;
}

}  // namespace calyrex::eval
