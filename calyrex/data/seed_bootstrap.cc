#include "calyrex/data/seed_bootstrap.h"

#include <algorithm>

#include "calyrex/base/error.h"
#include "calyrex/base/random.h"

namespace calyrex::data {
namespace {

/// Every column's weight in the mean.
std::vector<double> column_weights(const SampleGroups& groups, size_t columns) {
  std::vector<double> weights(columns, 0.0);
  for (const auto& group : groups) {
    CALYREX_CHECK(!group.empty());
    for (const size_t column : group) {
      weights.at(column) = 1.0 / static_cast<double>(groups.size() * group.size());
    }
  }
  return weights;
}

/// Mean of the drawn rows of each column.
class RowDraw {
 public:
  explicit RowDraw(const SeedScores& scores) : scores_(scores), counts_(scores.size()) {}

  void draw(RandomStream& random) {
    std::fill(counts_.begin(), counts_.end(), 0.0);
    for (size_t i = 0; i < scores_.size(); ++i)
      counts_[random.below(scores_.size())] += 1.0 / static_cast<double>(scores_.size());
  }
  void take_all() { std::fill(counts_.begin(), counts_.end(), 1.0 / static_cast<double>(scores_.size())); }
  double at(size_t column) const {
    double sum = 0.0;
    for (size_t row = 0; row < scores_.size(); ++row) sum += counts_[row] * scores_[row][column];
    return sum;
  }

 private:
  const SeedScores& scores_;
  std::vector<double> counts_;  // share of each row in the draw
};

/// The samples of one draw: within groups, or, when a group is too small for that, of all.
void draw_columns(const SampleGroups& groups, size_t columns, RandomStream& random,
                  std::vector<std::pair<size_t, double>>& drawn) {
  const bool stratified =
      std::all_of(groups.begin(), groups.end(), [](const auto& group) { return group.size() > 1; });
  drawn.clear();
  if (!stratified) {
    const std::vector<double> weights = column_weights(groups, columns);
    double total = 0.0;
    for (size_t i = 0; i < columns; ++i) {
      const size_t column = random.below(columns);
      drawn.emplace_back(column, weights[column]);
      total += weights[column];
    }
    for (auto& [column, weight] : drawn) weight /= total;
    return;
  }
  for (const auto& group : groups) {
    const double weight = 1.0 / static_cast<double>(groups.size() * group.size());
    for (size_t i = 0; i < group.size(); ++i) drawn.emplace_back(group[random.below(group.size())], weight);
  }
}

void check_scores(const SeedScores& scores, size_t columns) {
  CALYREX_CHECK(!scores.empty());
  for (const auto& row : scores) CALYREX_CHECK(row.size() == columns);
}

double whole_mean(const SeedScores& scores, const std::vector<double>& weights) {
  RowDraw rows(scores);
  rows.take_all();
  double mean = 0.0;
  for (size_t column = 0; column < weights.size(); ++column) mean += weights[column] * rows.at(column);
  return mean;
}

}  // namespace

Estimate seed_mean(const SeedScores& scores, const SampleGroups& groups, uint64_t seed, int64_t resamples) {
  if (groups.empty()) return {};
  const SeedScores zero(1, std::vector<double>(scores.front().size(), 0.0));
  Estimate mean = seed_difference(zero, scores, groups, seed, resamples).difference;
  double least = scores[0][0], most = least;
  for (const auto& row : scores) {
    for (const double score : row) {
      least = std::min(least, score);
      most = std::max(most, score);
    }
  }
  // Weights add up to 1 but for rounding.
  for (double* value : {&mean.value, &mean.low, &mean.high}) *value = std::clamp(*value, least, most);
  return mean;
}

SeedDifference seed_difference(const SeedScores& first, const SeedScores& second, const SampleGroups& groups,
                               uint64_t seed, int64_t resamples) {
  CALYREX_CHECK(resamples > 0 && !first.empty());
  SeedDifference result;
  if (groups.empty()) return result;
  const size_t columns = first.front().size();
  check_scores(first, columns);
  check_scores(second, columns);
  const std::vector<double> weights = column_weights(groups, columns);
  result.difference.value = whole_mean(second, weights) - whole_mean(first, weights);
  RandomStream random(seed, "seed bootstrap");
  RowDraw first_rows(first), second_rows(second);
  std::vector<std::pair<size_t, double>> drawn;
  std::vector<double> differences;
  int64_t not_above = 0, not_below = 0;
  for (int64_t i = 0; i < resamples; ++i) {
    first_rows.draw(random);
    second_rows.draw(random);
    draw_columns(groups, columns, random, drawn);
    double difference = 0.0;
    for (const auto& [column, weight] : drawn)
      difference += weight * (second_rows.at(column) - first_rows.at(column));
    constexpr double kRounding = 1e-12;
    not_above += difference <= kRounding ? 1 : 0;
    not_below += difference >= -kRounding ? 1 : 0;
    differences.push_back(difference);
  }
  set_percentile_interval(result.difference, differences);
  // One is added so that no finite number of draws claims certainty (Davison and Hinkley 1997).
  const double tail = static_cast<double>(std::min(not_above, not_below) + 1);
  result.p_value = std::min(1.0, 2.0 * tail / static_cast<double>(resamples + 1));
  return result;
}

}  // namespace calyrex::data
