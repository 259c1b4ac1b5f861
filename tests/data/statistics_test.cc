#include "calyrex/data/statistics.h"

#include <gtest/gtest.h>

#include "calyrex/base/json.h"

namespace calyrex::data {
namespace {

constexpr const char* kGolden = "tests/golden/data/statistics.json";

void expect_estimate(const Estimate& estimate, const Json& golden, double tolerance) {
  EXPECT_NEAR(estimate.value, golden[0].get<double>(), tolerance) << golden.dump();
  EXPECT_NEAR(estimate.low, golden[1].get<double>(), tolerance) << golden.dump();
  EXPECT_NEAR(estimate.high, golden[2].get<double>(), tolerance) << golden.dump();
}

TEST(Statistics, WilsonEqualsTheRootsOfTheScoreTest) {
  for (const Json& row : read_json_file(kGolden)["wilson"]) {
    expect_estimate(wilson_share(row["passed"].get<int64_t>(), row["total"].get<int64_t>()), row["estimate"],
                    1e-9);
  }
}

TEST(Statistics, WilsonTouchesTheEnds) {
  EXPECT_EQ(wilson_share(0, 10).low, 0.0);
  EXPECT_EQ(wilson_share(10, 10).high, 1.0);
  EXPECT_EQ(wilson_share(0, 0).high, 1.0);
}

TEST(Statistics, MeanOfSharesEqualsTheReference) {
  for (const Json& row : read_json_file(kGolden)["mean_of_shares"]) {
    std::vector<GroupCount> groups;
    for (const Json& group : row["groups"])
      groups.push_back({group[0].get<int64_t>(), group[1].get<int64_t>()});
    expect_estimate(mean_of_shares(groups), row["estimate"], 1e-9);
  }
  EXPECT_EQ(mean_of_shares({}).high, 1.0);
}

TEST(Statistics, BootstrapAgreesWithAnotherGenerator) {
  constexpr double kMonteCarlo = 0.012;  // both sides draw: 4,000 resamples here, 200,000 in the reference
  for (const Json& row : read_json_file(kGolden)["bootstrap"]) {
    const auto groups = row["groups"].get<std::vector<std::vector<double>>>();
    expect_estimate(bootstrap_group_mean(groups, /*seed=*/1), row["estimate"], kMonteCarlo);
  }
}

TEST(Statistics, BootstrapDependsOnTheSeedAlone) {
  const std::vector<std::vector<double>> groups = {{0, 1, 1, 0, 1, 1, 0.5}, {1, 0, 0.25}};
  EXPECT_EQ(bootstrap_group_mean(groups, 3).low, bootstrap_group_mean(groups, 3).low);
  EXPECT_EQ(bootstrap_group_mean({{1, 1}, {}}, 3).value, 1.0);
  EXPECT_EQ(bootstrap_group_mean({}, 3).value, 0.0);
}

}  // namespace
}  // namespace calyrex::data
