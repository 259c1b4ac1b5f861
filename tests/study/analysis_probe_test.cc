#include "calyrex/study/analysis_probe.h"

#include <algorithm>
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "calyrex/base/json.h"
#include "calyrex/base/random.h"

namespace calyrex::study {
namespace {

at::Tensor matrix(const Json& rows) {
  std::vector<double> values;
  for (const Json& row : rows) {
    for (const Json& value : row) values.push_back(value.get<double>());
  }
  return at::tensor(values, at::kDouble).view({static_cast<int64_t>(rows.size()), -1});
}

TEST(Probe, ReachesTheMinimumThatNewtonFinds) {
  const Json golden = read_json_file("tests/golden/study/probe.json");
  const at::Tensor labels = at::tensor(golden["labels"].get<std::vector<int64_t>>(), at::kLong);
  const ProbeFit fit = fit_probe(matrix(golden["features"]), labels, 3, golden["l2"].get<double>(), 1e-9);
  EXPECT_NEAR(fit.objective, golden["objective"].get<double>(), 1e-10);
  EXPECT_LT((fit.weight - matrix(golden["weight"])).abs().max().item<double>(), 1e-6);
}

/// Rows of three classes around corners, far apart or on top of each other.
at::Tensor clouds(const std::vector<int64_t>& labels, double distance) {
  RandomStream random(3, "clouds");
  std::vector<double> values;
  for (const int64_t label : labels) {
    for (int64_t feature = 0; feature < 6; ++feature)
      values.push_back(random.normal() + (feature == label ? distance : 0.0));
  }
  return at::tensor(values, at::kDouble).view({-1, 6});
}

TEST(Probe, TellsApartWhatIsApartAndNothingElse) {
  std::vector<int64_t> labels;
  std::vector<std::string> groups;
  for (int64_t i = 0; i < 120; ++i) {
    labels.push_back(i % 3);
    groups.push_back(std::to_string(i % 12));
  }
  const ProbeSplit split = split_for_probe(labels, groups, 0);
  EXPECT_EQ(split.test.size(), 60u);
  EXPECT_GE(probe_hits(clouds(labels, 8.0), labels, 3, split), 58);
  EXPECT_LE(probe_hits(clouds(labels, 0.0), labels, 3, split), 34);
  EXPECT_EQ(probe_hits(at::ones({120, 6}), labels, 3, split), 20) << "states that do not vary give chance";
}

TEST(Probe, SplitsByWordingAndFallsBackToRows) {
  const std::vector<int64_t> labels = {0, 0, 0, 0, 1, 1, 1, 1, 2};
  const std::vector<std::string> groups = {"a", "a", "b", "b", "c", "c", "c", "c", "d"};
  const ProbeSplit split = split_for_probe(labels, groups, 5);
  const auto side = [&](int64_t row) { return std::count(split.train.begin(), split.train.end(), row); };
  EXPECT_EQ(split.train.size() + split.test.size(), labels.size());
  EXPECT_EQ(side(0), side(1));
  EXPECT_EQ(side(2), side(3));
  EXPECT_NE(side(0), side(2));
  EXPECT_EQ(side(4) + side(5) + side(6) + side(7), 2);
  EXPECT_EQ(side(8), 1);
  EXPECT_EQ(split_for_probe(labels, groups, 5).train, split.train);
}

}  // namespace
}  // namespace calyrex::study
