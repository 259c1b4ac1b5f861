// Mixing, shuffling and packing: exact counts, right shares on average, and the same plan from any cursor.
#include "calyrex/train/step_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

namespace calyrex::train {
namespace {

std::map<int64_t, int64_t> count_rows(const std::vector<int64_t>& rows) {
  std::map<int64_t, int64_t> counts;
  for (const int64_t row : rows) ++counts[row];
  return counts;
}

int64_t length_of(int64_t row) { return 10 + row % 7; }

TEST(EpochRows, WeightOneTakesEveryRowOnceInFileOrder) {
  const std::vector<RowSource> sources = {{.first_row = 0, .num_rows = 3}, {.first_row = 3, .num_rows = 2}};
  EXPECT_EQ(epoch_rows(sources, RowOrder::kAsFiles, 1, 0), (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

TEST(EpochRows, WholePartsRepeatAndFractionsAreDrawn) {
  const std::vector<RowSource> sources = {{.first_row = 0, .num_rows = 100, .weight = 2.25}};
  const auto counts = count_rows(epoch_rows(sources, RowOrder::kShuffled, 3, 0));
  int64_t thrice = 0;
  for (int64_t row = 0; row < 100; ++row) {
    const int64_t count = counts.at(row);
    EXPECT_TRUE(count == 2 || count == 3);
    thrice += count == 3 ? 1 : 0;
  }
  EXPECT_EQ(thrice, 25);
}

TEST(EpochRows, AShareIsRightOnAverageEvenForAFewRows) {
  const std::vector<RowSource> sources = {{.first_row = 0, .num_rows = 3, .weight = 0.1}};
  int64_t total = 0;
  std::set<int64_t> seen;
  constexpr int64_t kEpochs = 4000;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (const int64_t row : epoch_rows(sources, RowOrder::kShuffled, 5, epoch)) {
      ++total;
      seen.insert(row);
    }
  }
  // 0.3 rows an epoch; five standard deviations of the mean.
  EXPECT_NEAR(static_cast<double>(total) / kEpochs, 0.3, 5 * 0.46 / std::sqrt(kEpochs));
  EXPECT_EQ(seen.size(), 3u);
}

TEST(EpochRows, SeedAndEpochDecideTheOrder) {
  const std::vector<RowSource> sources = {{.first_row = 0, .num_rows = 50}};
  const auto first = epoch_rows(sources, RowOrder::kShuffled, 7, 0);
  EXPECT_EQ(first, epoch_rows(sources, RowOrder::kShuffled, 7, 0));
  EXPECT_NE(first, epoch_rows(sources, RowOrder::kShuffled, 7, 1));
  EXPECT_NE(first, epoch_rows(sources, RowOrder::kShuffled, 8, 0));
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, epoch_rows(sources, RowOrder::kAsFiles, 7, 0));
}

StepPlanner::Options plan(int64_t rows, int64_t batch_tokens, int64_t epochs) {
  return {.sources = {{.first_row = 0, .num_rows = rows}},
          .order = RowOrder::kShuffled,
          .seed = 11,
          .batch_tokens = batch_tokens,
          .batch_examples = {},
          .epochs = epochs};
}

TEST(StepPlanner, StepsHoldAsMuchAsFitsAndEveryRowOnceAnEpoch) {
  StepPlanner planner(plan(40, 64, 2), length_of);
  std::vector<int64_t> seen;
  int64_t steps = 0;
  for (auto step = planner.next(); !step.empty(); step = planner.next()) {
    int64_t tokens = 0;
    for (const int64_t row : step) tokens += length_of(row);
    EXPECT_LE(tokens, 64);
    if (seen.size() % 40 + step.size() < 40) EXPECT_GT(tokens, 64 - 16) << "another row would have fitted";
    seen.insert(seen.end(), step.begin(), step.end());
    EXPECT_LE(seen.size() % 40 == 0 ? size_t{0} : seen.size() % 40, 40u);
    ++steps;
  }
  ASSERT_EQ(seen.size(), 80u);
  EXPECT_EQ(count_rows({seen.begin(), seen.begin() + 40}).size(), 40u);
  EXPECT_EQ(steps, count_steps(plan(40, 64, 2), length_of));
}

TEST(StepPlanner, ALongRowMakesItsOwnStep) {
  StepPlanner::Options options = plan(3, 5, 1);
  options.order = RowOrder::kAsFiles;
  StepPlanner planner(options, length_of);
  EXPECT_EQ(planner.next(), std::vector<int64_t>{0});
  EXPECT_EQ(planner.next(), std::vector<int64_t>{1});
}

TEST(StepPlanner, BatchExamplesCountsRowsThatAreKept) {
  StepPlanner::Options options = plan(10, 1, 1);
  options.order = RowOrder::kAsFiles;
  options.batch_examples = 4;
  StepPlanner planner(options, [](int64_t row) { return row == 1 ? 0 : length_of(row); });
  EXPECT_EQ(planner.next(), (std::vector<int64_t>{0, 2, 3, 4}));
  EXPECT_EQ(planner.next(), (std::vector<int64_t>{5, 6, 7, 8}));
  EXPECT_EQ(planner.next(), std::vector<int64_t>{9});
  EXPECT_TRUE(planner.next().empty());
  EXPECT_TRUE(planner.next().empty());
}

TEST(StepPlanner, ShufflingDoesNotDependOnTheBatch) {
  const auto all_rows = [](int64_t batch_tokens) {
    StepPlanner planner(plan(30, batch_tokens, 1), length_of);
    std::vector<int64_t> rows;
    for (auto step = planner.next(); !step.empty(); step = planner.next())
      rows.insert(rows.end(), step.begin(), step.end());
    return rows;
  };
  EXPECT_EQ(all_rows(40), all_rows(100));
}

TEST(StepPlanner, EveryCursorContinuesTheSamePlan) {
  const StepPlanner::Options options = plan(23, 50, 3);
  StepPlanner whole(options, length_of);
  std::vector<std::vector<int64_t>> steps;
  std::vector<DataCursor> cursors = {whole.cursor()};
  for (auto step = whole.next(); !step.empty(); step = whole.next()) {
    steps.push_back(step);
    cursors.push_back(whole.cursor());
  }
  ASSERT_GT(steps.size(), 12u);
  for (size_t start = 0; start <= steps.size(); ++start) {
    StepPlanner resumed(options, length_of);
    resumed.set_cursor(cursors[start]);
    for (size_t i = start; i < steps.size(); ++i) EXPECT_EQ(resumed.next(), steps[i]) << start << " " << i;
    EXPECT_TRUE(resumed.next().empty());
  }
}

TEST(StepPlanner, WithoutEpochsItGoesOnForEver) {
  StepPlanner::Options options = plan(5, 1000, 1);
  options.epochs.reset();
  StepPlanner planner(options, length_of);
  for (int step = 0; step < 20; ++step) EXPECT_EQ(planner.next().size(), 5u);
  EXPECT_EQ(planner.cursor().epoch, 19);
}

}  // namespace
}  // namespace calyrex::train
