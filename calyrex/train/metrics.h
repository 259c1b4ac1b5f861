// metrics.jsonl: one line an optimiser step, and the progress line on the terminal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "calyrex/base/file.h"
#include "calyrex/base/json.h"
#include "calyrex/base/log.h"

namespace calyrex::train {

/// What one optimiser step did.
struct StepMetrics {
  int64_t step = 0;   // from 1
  double loss = 0.0;  // mean over the step's label tokens
  int64_t tokens = 0;
  int64_t label_tokens = 0;
  double grad_norm = 0.0;  // before clipping
  double learning_rate = 0.0;
  double seconds = 0.0;                        // of this step
  std::map<int64_t, double> block_grad_norms;  // by the layer that a block follows; -1: outside
  std::optional<double> eval_loss;
};

Json metrics_to_json(const StepMetrics& metrics);

/// Appends to metrics.jsonl. Opening it for a run that continues after `last_step` drops later lines, which
/// the interrupted run wrote after its last checkpoint.
class MetricsLog {
 public:
  MetricsLog(std::filesystem::path path, int64_t last_step);
  void write(const StepMetrics& metrics);

 private:
  LineWriter writer_;
};

/// Step and loss pairs (and evaluation losses) of a metrics file, thinned to at most `max_points` of each.
Json read_loss_curve(const std::filesystem::path& path, int64_t max_points);

/// "step 12/300  loss 1.234  612 tokens/s  4:10 left" on a terminal.
class TrainingProgress {
 public:
  explicit TrainingProgress(int64_t total_steps) : total_steps_(total_steps) {}
  void show(const StepMetrics& metrics);

 private:
  int64_t total_steps_;
  double tokens_per_second_ = 0.0;  // smoothed
  double seconds_per_step_ = 0.0;
  double loss_ = 0.0;
  ProgressLine line_;
};

}  // namespace calyrex::train
