#include "calyrex/train/step_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "calyrex/base/error.h"
#include "calyrex/base/random.h"

namespace calyrex::train {
namespace {

/// Adds the rows of one source; `random` decides which rows make up the fraction of its weight.
void add_source(const RowSource& source, RandomStream& random, std::vector<int64_t>& rows) {
  const auto whole = static_cast<int64_t>(source.weight);
  std::vector<int64_t> own(static_cast<size_t>(source.num_rows));
  std::iota(own.begin(), own.end(), source.first_row);
  for (int64_t pass = 0; pass < whole; ++pass) rows.insert(rows.end(), own.begin(), own.end());
  const double expected = (source.weight - static_cast<double>(whole)) * static_cast<double>(source.num_rows);
  auto count = static_cast<size_t>(expected);
  if (random.uniform() < expected - std::floor(expected)) ++count;
  random.shuffle(own);
  own.resize(std::min(count, own.size()));
  std::sort(own.begin(), own.end());
  rows.insert(rows.end(), own.begin(), own.end());
}

}  // namespace

std::vector<int64_t> epoch_rows(const std::vector<RowSource>& sources, RowOrder order, uint64_t seed,
                                int64_t epoch) {
  std::vector<int64_t> rows;
  for (size_t i = 0; i < sources.size(); ++i) {
    RandomStream random(seed, fmt::format("train.mix.{}.{}", epoch, i));
    add_source(sources[i], random, rows);
  }
  if (order == RowOrder::kShuffled) {
    RandomStream random(seed, fmt::format("train.order.{}", epoch));
    random.shuffle(rows);
  }
  return rows;
}

StepPlanner::StepPlanner(Options options, RowLength length)
    : options_(std::move(options)), length_(std::move(length)) {
  load_epoch(0);
}

void StepPlanner::load_epoch(int64_t epoch) {
  cursor_ = {.epoch = epoch, .position = 0};
  rows_ = epoch_rows(options_.sources, options_.order, options_.seed, epoch);
}

void StepPlanner::set_cursor(const DataCursor& cursor) {
  load_epoch(cursor.epoch);
  CALYREX_CHECK(cursor.position >= 0 && cursor.position <= static_cast<int64_t>(rows_.size()));
  cursor_ = cursor;
}

std::vector<int64_t> StepPlanner::next() {
  std::vector<int64_t> step;
  int64_t tokens = 0;
  while (!options_.epochs || cursor_.epoch < *options_.epochs) {
    for (; cursor_.position < static_cast<int64_t>(rows_.size()); ++cursor_.position) {
      const int64_t row = rows_[static_cast<size_t>(cursor_.position)];
      const int64_t length = length_(row);
      if (length == 0) continue;
      const bool full = options_.batch_examples
                            ? static_cast<int64_t>(step.size()) >= *options_.batch_examples
                            : tokens + length > options_.batch_tokens;
      if (full && !step.empty()) return step;
      step.push_back(row);
      tokens += length;
    }
    if (options_.epochs && cursor_.epoch + 1 >= *options_.epochs && step.empty()) break;
    // The cursor stays at the end of an epoch until its last step has been handed out.
    if (!step.empty()) return step;
    load_epoch(cursor_.epoch + 1);
  }
  return step;
}

int64_t count_steps(const StepPlanner::Options& options, const StepPlanner::RowLength& length) {
  CALYREX_CHECK(options.epochs.has_value());
  StepPlanner planner(options, length);
  int64_t steps = 0;
  while (!planner.next().empty()) ++steps;
  return steps;
}

}  // namespace calyrex::train
