// Training data: chats of several files, tokenised by other threads ahead of the trainer.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "calyrex/base/token.h"
#include "calyrex/data/row.h"
#include "calyrex/text/chat_encoder.h"
#include "calyrex/train/config.h"
#include "calyrex/train/step_plan.h"

namespace calyrex::train {

/// One chat as the trainer uses it. A row that is left out has no token_ids.
struct TrainingRow {
  std::string id;  // the row's own id, or file:line
  std::vector<TokenId> token_ids;
  TokenSpans system_spans;
  TokenSpans label_spans;  // tokens that are learnt; position 0 is never one

  int64_t num_tokens() const { return static_cast<int64_t>(token_ids.size()); }
  int64_t num_label_tokens() const;
};

/// A data file and the digest of its bytes, kept with checkpoints and adapters.
struct DataFile {
  std::string path;
  std::string sha256;
  int64_t num_rows = 0;
};

/// Chats of all files, one file after the other. A file without rows is kInvalidArgument.
struct ChatFiles {
  std::vector<data::ChatRow> rows;
  std::vector<DataFile> files;
};
ChatFiles read_chat_files(const std::vector<std::string>& paths);

/// What became of the rows.
struct DataSummary {
  int64_t rows = 0;
  int64_t too_long = 0;
  int64_t without_labels = 0;
  int64_t without_span = 0;
  int64_t last_turn_only = 0;  // the template is not append-only for them
  int64_t tokens = 0;          // of the rows that are kept
  int64_t label_tokens = 0;
};

/// Rows in the order given, encoded by worker threads from the first to the last. Thread-safe readers.
class EncodedRows {
 public:
  struct Options {
    int64_t max_tokens = 2048;
    Labels labels = Labels::kAll;
    int num_threads = 1;
  };

  /// `on_done` is called once, from a worker, when the last row is encoded; what it throws is thrown by the
  /// readers.
  EncodedRows(std::vector<data::ChatRow> rows, std::shared_ptr<const text::ChatEncoder> encoder,
              Options options, std::function<void(const DataSummary&)> on_done);
  EncodedRows(const EncodedRows&) = delete;
  EncodedRows& operator=(const EncodedRows&) = delete;
  /// Stops the workers at their next row.
  ~EncodedRows();

  int64_t size() const { return static_cast<int64_t>(encoded_.size()); }
  /// Waits for the row. Throws what encoding it threw, with the row's id.
  const TrainingRow& at(int64_t row) const;
  /// Waits up to `milliseconds` for all rows; false when some are still missing. Throws as at().
  bool wait_for(int milliseconds) const;

 private:
  void work();
  void finish();
  TrainingRow encode(const data::ChatRow& row, DataSummary& counts) const;

  std::vector<data::ChatRow> rows_;
  std::shared_ptr<const text::ChatEncoder> encoder_;
  Options options_;
  std::function<void(const DataSummary&)> on_done_;
  std::vector<TrainingRow> encoded_;

  mutable std::mutex mutex_;
  mutable std::condition_variable progressed_;
  std::vector<bool> done_;  // guarded by mutex_, as all below
  int64_t next_ = 0;
  int64_t num_done_ = 0;
  bool finished_ = false;
  bool stop_ = false;
  std::exception_ptr error_;
  DataSummary summary_;
  std::vector<std::thread> workers_;
};

/// Logs what was left out and the share of rows without a span; a warning when over half have none. Throws
/// kInvalidArgument when no row is left. `what` is "training" or "evaluation".
void report_summary(const DataSummary& summary, std::string_view what, int64_t max_tokens);

}  // namespace calyrex::train
