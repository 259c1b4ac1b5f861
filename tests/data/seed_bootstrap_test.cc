#include "calyrex/data/seed_bootstrap.h"

#include <gtest/gtest.h>

#include "calyrex/base/json.h"

namespace calyrex::data {
namespace {

TEST(SeedBootstrap, AgreesWithAnotherGenerator) {
  // Both sides draw: 20,000 resamples here, 100,000 in the reference.
  constexpr double kMonteCarlo = 0.012;
  for (const Json& row : read_json_file("tests/golden/data/statistics.json")["seeds"]) {
    const SeedDifference found =
        seed_difference(row["first"].get<SeedScores>(), row["second"].get<SeedScores>(),
                        row["groups"].get<SampleGroups>(), /*seed=*/3, /*resamples=*/20000);
    EXPECT_NEAR(found.difference.value, row["estimate"][0].get<double>(), 1e-9);
    EXPECT_NEAR(found.difference.low, row["estimate"][1].get<double>(), kMonteCarlo);
    EXPECT_NEAR(found.difference.high, row["estimate"][2].get<double>(), kMonteCarlo);
    EXPECT_NEAR(found.p_value, row["p_value"].get<double>(), kMonteCarlo);
  }
}

TEST(SeedBootstrap, EqualScoresDoNotDiffer) {
  const SeedScores scores = {{1, 0, 1, 0}, {0, 0, 1, 1}};
  const SeedDifference same = seed_difference({scores[0]}, {scores[0]}, {{0, 1, 2, 3}}, 0);
  EXPECT_EQ(same.difference.value, 0.0);
  EXPECT_EQ(same.p_value, 1.0);
  // Two draws of the same seeds do differ: the interval says so.
  const SeedDifference drawn = seed_difference(scores, scores, {{0, 1, 2, 3}}, 0);
  EXPECT_LT(drawn.difference.low, 0.0);
  EXPECT_GT(drawn.difference.high, 0.0);
}

TEST(SeedBootstrap, SeedsWidenTheInterval) {
  // The samples of a row are all alike, so that only the draw of seeds varies.
  const SeedScores seeds = {{0, 0, 0, 0}, {1, 1, 1, 1}};
  const Estimate both = seed_mean(seeds, {{0, 1, 2, 3}}, 1);
  EXPECT_EQ(both.value, 0.5);
  EXPECT_EQ(both.low, 0.0);
  EXPECT_EQ(both.high, 1.0);
  const Estimate one = seed_mean({seeds[1]}, {{0, 1, 2, 3}}, 1);
  EXPECT_EQ(one.low, 1.0);
}

TEST(SeedBootstrap, GroupsCountAlike) {
  const Estimate mean = seed_mean({{1, 1, 1, 1, 0, 0}}, {{0, 1, 2, 3}, {4, 5}}, 1);
  EXPECT_EQ(mean.value, 0.5);
  EXPECT_EQ(mean.low, 0.5) << "no group varies within itself";
  // A group of one: drawn from all, so that the interval is not a point.
  EXPECT_LT(seed_mean({{1, 0}}, {{0}, {1}}, 1).low, 0.5);
}

}  // namespace
}  // namespace calyrex::data
