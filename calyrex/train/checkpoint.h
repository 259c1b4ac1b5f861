// Checkpoints: folders that hold all that a run needs to go on with the same bits.
//
//   OUTPUT/checkpoints/step-00000500/
//     adapter_config.json, adapter_model.safetensors (float32), chat_template.jinja   an adapter folder of
//     its own optimizer.safetensors                                                           both moments,
//     float32 state.json                                                                      the rest, and
//     digests of the files
//
// Random streams are made from (seed, name, epoch), so the seed and the cursor are their whole state.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/train/optimizer.h"
#include "calyrex/train/step_plan.h"
#include "calyrex/weights/adapter_folder.h"

namespace calyrex::train {

/// Where a run stands after `step` optimiser steps.
struct RunState {
  int64_t step = 0;
  DataCursor cursor;
  double seconds = 0.0;  // of training, over all its parts
  int64_t tokens = 0;
  int64_t label_tokens = 0;
  uint64_t seed = 0;
  std::string config_sha256;  // of the configuration as JSON, without `output`
  std::string dtype;
  int64_t threads = 0;
  Json optimizer_steps = Json::object();
};

/// A checkpoint that has been read and checked.
struct Checkpoint {
  std::filesystem::path path;
  RunState state;
};

/// The checkpoints of one run.
class CheckpointStore {
 public:
  CheckpointStore(std::filesystem::path output, int64_t keep);

  /// Writes a checkpoint that appears whole or not at all, then drops the oldest beyond `keep`. A failure
  /// (disk full) throws kIo and leaves the earlier ones.
  void save(const RunState& state, const weights::AdapterConfig& config, const model::Adapter& adapter,
            const Optimizer& optimizer, const std::string& chat_template);

  /// The newest checkpoint; kCorruptData when its files do not match their digests, naming the remedy.
  std::optional<Checkpoint> newest() const;

  /// Removes what an interrupted write or removal left behind.
  void clean_up() const;
  void remove_all() const;
  bool empty() const;

 private:
  std::vector<std::filesystem::path> list() const;

  std::filesystem::path folder_;
  int64_t keep_;
};

}  // namespace calyrex::train
