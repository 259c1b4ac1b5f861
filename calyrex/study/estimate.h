// What a study will take: tokens, disk and time, worked out before its first run; and which states below the
// first blocks the runs share.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/eval/run/runner.h"
#include "calyrex/study/plan.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::study {

/// Rows and tokens of training files, tokens being taken as a share of the bytes.
struct DataSize {
  int64_t rows = 0;
  int64_t tokens = 0;
};

/// Reads and checks the training files of every run; files that are named alike are read once. Errors name
/// file and line.
class DataSizes {
 public:
  explicit DataSizes(const std::vector<PlannedRun>& runs);
  const DataSize& of(const train::TrainConfig& config) const;

 private:
  std::map<std::string, DataSize> sizes_;  // by the file list
};

/// Layer whose states (with no block up to it) a run may start from; none for kinds that work in the layers.
std::optional<int64_t> own_states_layer(const PlannedRun& run);

/// Bytes of one layer's states for all rows of the largest training set.
int64_t states_bytes(const std::vector<PlannedRun>& runs, const DataSizes& sizes,
                     const weights::ModelConfig& model);

/// Chooses the layers whose states are kept within `train.prefix_cache_gib` and gives each run the latest one
/// that is not behind its first block: every wanted layer where the budget holds them all, else those that
/// spare the most layers. Returns the layers. Depends on configuration and data alone, as a run's arithmetic
/// does on its layer.
std::vector<int64_t> share_states(std::vector<PlannedRun>& runs, const DataSizes& sizes,
                                  const weights::ModelConfig& model);

/// The questions of one evaluation; tokens as a share of the bytes.
struct AskedTokens {
  int64_t samples = 0;
  int64_t prompt_tokens = 0;
  int64_t answer_tokens = 0;  // expected ones
};

AskedTokens count_asked(const eval::LoadedTask& task, std::optional<int64_t> max_new_tokens);

struct RunEstimate {
  int64_t training_tokens = 0;
  double training_seconds = 0.0;
  double evaluation_seconds = 0.0;
  int64_t disk_bytes = 0;
  int64_t checkpoint_bytes = 0;  // while it trains; they go when it is finished

  double seconds() const { return training_seconds + evaluation_seconds; }
};

/// Floating-point operations a second of matrix products in the training dtype, measured in some tenths of a
/// second.
double measure_flops(const std::string& dtype);

/// By counting operations, at shares of `flops` that training, reading and writing were seen to reach.
RunEstimate estimate_run(const PlannedRun& run, const DataSizes& sizes, const weights::ModelConfig& model,
                         const std::vector<AskedTokens>& asked, double flops);

}  // namespace calyrex::study
