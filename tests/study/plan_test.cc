// Plans of studies on a tiny model: combinations, names, arms, equal runs, and shared states.
#include "calyrex/study/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/study/estimate.h"
#include "tests/weights/test_files.h"

namespace calyrex::study {
namespace {

using testing::ElementsAre;

StudyFile read(const test::TempFolder& folder, const std::string& rest) {
  const std::filesystem::path path = folder / "study.yaml";
  test::write_bytes(path,
                    "output: out\nbase: {model: tests/golden/models/llama, data: {train: [{path: "
                    "tests/golden/training/rows.jsonl}]}, train: {prefix_cache_gib: 1}}\n"
                    "eval: [{task: rules, sample: true}]\n" +
                        rest);
  return load_study_file(path, {});
}

std::vector<PlannedRun> plan(const std::string& rest) {
  const test::TempFolder folder;
  return plan_runs(read(folder, rest), *weights::open_model("tests/golden/models/llama"));
}

std::vector<std::string> names(const std::vector<PlannedRun>& runs) {
  std::vector<std::string> names;
  for (const PlannedRun& run : runs) names.push_back(run.name);
  return names;
}

TEST(StudyPlan, GridsMultiplyAndRunsRepeatWithSeeds) {
  EXPECT_THAT(
      names(plan("grid: {placement: [last, [0, 2]], seed: [3, 4], adapter.cal.position: [rope]}\n"
                 "runs: [{kind: lora, seeds: [0, 1], adapter.lora.rank: 2}, {name: mine, kind: cal}]\n")),
      ElementsAre("base", "lora-rank=2-s0", "lora-rank=2-s1", "mine-s0", "cal-last-position=rope-s3",
                  "cal-last-position=rope-s4", "cal-0_2-position=rope-s3", "cal-0_2-position=rope-s4"));
}

TEST(StudyPlan, ANameThatNoFolderCanHaveIsRefused) {
  const std::string longest(252, 'n');  // "-s0" follows
  EXPECT_EQ(plan("runs: [{name: " + longest + ", kind: lora}]\n").size(), 2u);
  test::expect_error(ErrorCode::kInvalidArgument, "has a name of 256 bytes; a folder's has at most 255",
                     [&] { plan("runs: [{name: " + longest + "n, kind: lora}]\n"); });
}

TEST(StudyPlan, SeveralGridsFollowEachOther) {
  EXPECT_THAT(
      names(plan("grid: [{kind: [cal], placement: [last]}, {kind: [parallel_mlp], placement: [[1]]}]\n")),
      ElementsAre("base", "cal-last-s0", "parallel_mlp-1-s0"));
}

TEST(StudyPlan, EqualParametersSolveTheWidthOrLeaveTheCellOut) {
  const std::vector<PlannedRun> runs = plan(
      "equal_params_to: {kind: cal, placement: [2], cal: {intermediate_size: 40}}\n"
      "runs: [{name: plain, kind: cal, placement: [2], adapter.cal.intermediate_size: 40},\n"
      "       {kind: lora, arm: equal_params}]\n"
      "grid: {kind: [cal], placement: [[2], [1], all], arm: [equal_params]}\n");
  ASSERT_EQ(runs.size(), 6u);
  const auto budget = static_cast<double>(runs[1].parameters);
  EXPECT_NEAR(static_cast<double>(runs[2].parameters) / budget, 1.0, 0.005);
  EXPECT_EQ(runs[3].parameters, runs[1].parameters);
  EXPECT_EQ(runs[3].same_as, runs[1].name) << "the width that was solved is the backbone's";
  EXPECT_FALSE(runs[4].not_applicable);
  EXPECT_TRUE(runs[5].not_applicable);
  EXPECT_FALSE(runs[5].runs());
}

TEST(StudyPlan, StatesAreSharedWithinTheBudget) {
  const test::TempFolder folder;
  const auto model = weights::open_model("tests/golden/models/llama");
  const StudyFile file = read(folder, "grid: {placement: [all, [1, 2], last, [2]]}\nruns: [{kind: lora}]\n");
  std::vector<PlannedRun> runs = plan_runs(file, *model);
  const DataSizes sizes(runs);
  EXPECT_THAT(share_states(runs, sizes, model->config()), ElementsAre(0, 1, 2));
  EXPECT_FALSE(runs[1].states_layer) << "LoRA works in the layers";
  EXPECT_EQ(runs[2].states_layer, 0);
  EXPECT_EQ(runs[4].states_layer, 2);
  // Room for one file: layer 1 spares the runs at 1 and 2 most; what begins before it has none.
  const double one = static_cast<double>(states_bytes(runs, sizes, model->config())) / (1 << 30);
  for (PlannedRun& run : runs) {
    run.states_layer.reset();
    if (run.config) run.config->train.prefix_cache_gib = 1.5 * one;
  }
  EXPECT_THAT(share_states(runs, sizes, model->config()), ElementsAre(1));
  EXPECT_FALSE(runs[2].states_layer);
  EXPECT_EQ(runs[4].states_layer, 1);
}

TEST(StudyPlan, EstimatesGrowWithTheWork) {
  const test::TempFolder folder;
  const auto model = weights::open_model("tests/golden/models/llama");
  const StudyFile file = read(folder, "grid: {placement: [last, all], train.epochs: [1, 2]}\n");
  const std::vector<PlannedRun> runs = plan_runs(file, *model);
  const DataSizes sizes(runs);
  const auto seconds = [&](size_t run) {
    return estimate_run(runs[run], sizes, model->config(), {}, 1e9).training_seconds;
  };
  EXPECT_EQ(sizes.of(*runs[1].config).rows, 32);
  EXPECT_NEAR(seconds(2), 2 * seconds(1), 1e-9 + 0.01 * seconds(2));
  EXPECT_GT(seconds(3), seconds(1));
  EXPECT_EQ(seconds(0), 0.0);
  EXPECT_GT(estimate_run(runs[0], sizes, model->config(),
                         {{.samples = 1, .prompt_tokens = 10, .answer_tokens = 5}}, 1e9)
                .evaluation_seconds,
            0.0);
}

}  // namespace
}  // namespace calyrex::study
