// Which rows make up which optimiser step: mixing by weight, shuffling, packing. A function of the seed and
// the rows alone, so that a run can be continued from a cursor.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace calyrex::train {

/// Rows [first_row, first_row + num_rows) of the data set, taken `weight` times an epoch on average.
struct RowSource {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  double weight = 1.0;
};

enum class RowOrder { kAsFiles, kShuffled };

/// Rows of one epoch. A weight's whole part takes every row that often; its fraction takes that share of the
/// rows, drawn anew in each epoch (the count is rounded up or down at random, so that it is right on
/// average).
std::vector<int64_t> epoch_rows(const std::vector<RowSource>& sources, RowOrder order, uint64_t seed,
                                int64_t epoch);

/// Where the next step begins.
struct DataCursor {
  int64_t epoch = 0;
  int64_t position = 0;  // in the epoch's rows

  bool operator==(const DataCursor&) const = default;
};

/// Packs the rows of the epochs into steps. Not thread-safe.
class StepPlanner {
 public:
  struct Options {
    std::vector<RowSource> sources;
    RowOrder order = RowOrder::kShuffled;
    uint64_t seed = 0;
    int64_t batch_tokens = 4096;
    std::optional<int64_t> batch_examples;  // counts rows instead of tokens
    std::optional<int64_t> epochs;          // absent: without end
  };
  /// Tokens of a row; 0 for rows that are left out. May block until the row is known.
  using RowLength = std::function<int64_t(int64_t row)>;

  /// At least one row must have a length when epochs is absent.
  StepPlanner(Options options, RowLength length);

  /// Rows of the next step: as many in order as fit, at least one, never across epochs. Empty after the last
  /// epoch.
  std::vector<int64_t> next();
  const DataCursor& cursor() const { return cursor_; }
  void set_cursor(const DataCursor& cursor);

 private:
  void load_epoch(int64_t epoch);

  Options options_;
  RowLength length_;
  DataCursor cursor_;
  std::vector<int64_t> rows_;
};

/// Steps of a whole run; `options.epochs` must be given.
int64_t count_steps(const StepPlanner::Options& options, const StepPlanner::RowLength& length);

}  // namespace calyrex::train
