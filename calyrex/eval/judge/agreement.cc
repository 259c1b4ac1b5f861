#include "calyrex/eval/judge/agreement.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "calyrex/base/random.h"
#include "calyrex/data/grader.h"

namespace calyrex::eval {
namespace {

constexpr int kResamples = 2000;

/// Counts of (first, second): index 2 * first + second.
using Table = std::array<int64_t, 4>;

double raw_share(const Table& table) {
  const int64_t n = table[0] + table[1] + table[2] + table[3];
  return n == 0 ? 0.0 : static_cast<double>(table[0] + table[3]) / static_cast<double>(n);
}

double kappa_of(const Table& table) { return cohens_kappa(table[3], table[2], table[1], table[0]); }

data::Estimate with_interval(double value, std::vector<double> draws) {
  std::sort(draws.begin(), draws.end());
  const auto at = [&](double share) { return draws[static_cast<size_t>(share * (kResamples - 1) + 0.5)]; };
  return {.value = value, .low = at(0.025), .high = at(0.975)};
}

}  // namespace

double cohens_kappa(int64_t both_yes, int64_t only_first, int64_t only_second, int64_t both_no) {
  const auto n = static_cast<double>(both_yes + only_first + only_second + both_no);
  if (n == 0.0) return 0.0;
  const double observed = static_cast<double>(both_yes + both_no) / n;
  const double first_yes = static_cast<double>(both_yes + only_first) / n;
  const double second_yes = static_cast<double>(both_yes + only_second) / n;
  const double expected = first_yes * second_yes + (1.0 - first_yes) * (1.0 - second_yes);
  if (expected >= 1.0) return 1.0;  // both always say the same one word
  return (observed - expected) / (1.0 - expected);
}

Agreement measure_agreement(std::span<const DoubleVerdict> verdicts, uint64_t seed) {
  std::map<std::string, Table> by_cluster;
  Table table{};
  for (const DoubleVerdict& verdict : verdicts) {
    const auto cell = static_cast<size_t>(2 * verdict.first + verdict.second);
    ++by_cluster[verdict.cluster][cell];
    ++table[cell];
  }
  Agreement result{.n = static_cast<int64_t>(verdicts.size()),
                   .both_yes = table[3],
                   .only_first = table[2],
                   .only_second = table[1],
                   .both_no = table[0]};
  if (verdicts.empty()) {
    result.raw = {.value = 0.0, .low = 0.0, .high = 1.0};
    result.kappa = {.value = 0.0, .low = -1.0, .high = 1.0};
    return result;
  }
  std::vector<Table> clusters;
  for (const auto& [name, counts] : by_cluster) clusters.push_back(counts);
  RandomStream random(seed, "agreement");
  std::vector<double> raws;
  std::vector<double> kappas;
  for (int i = 0; i < kResamples; ++i) {
    Table drawn{};
    for (size_t k = 0; k < clusters.size(); ++k) {
      const Table& counts = clusters[random.below(clusters.size())];
      for (size_t cell = 0; cell < drawn.size(); ++cell) drawn[cell] += counts[cell];
    }
    raws.push_back(raw_share(drawn));
    kappas.push_back(kappa_of(drawn));
  }
  result.raw = with_interval(raw_share(table), std::move(raws));
  result.kappa = with_interval(kappa_of(table), std::move(kappas));
  return result;
}

Json agreement_to_json(const Agreement& agreement) {
  return {{"n", agreement.n},
          {"both_yes", agreement.both_yes},
          {"only_first", agreement.only_first},
          {"only_second", agreement.only_second},
          {"both_no", agreement.both_no},
          {"raw", data::estimate_to_json(agreement.raw)},
          {"kappa", data::estimate_to_json(agreement.kappa)}};
}

}  // namespace calyrex::eval
