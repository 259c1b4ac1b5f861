// Entry points of training: a whole run from a configuration file, and new adapters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "calyrex/train/shared_work.h"

namespace calyrex::train {

enum class Existing { kContinue, kRestart };

struct RunRequest {
  std::filesystem::path config_path;
  std::vector<std::string> overrides = {};  // key=value
  Existing existing = Existing::kContinue;
  SharedWork shared = {};  // with the other runs of a sweep
};

/// Trains to the end and writes the adapter to the configuration's `output`. Continues an unfinished run of
/// the same configuration; does nothing for a finished one. Throws kCancelled after a checkpoint when a
/// signal asks to stop.
void run_training(const RunRequest& request);

struct NewAdapterRequest {
  std::string model = "default";
  std::string kind = "cal";
  std::string placement = "late8th";
  std::filesystem::path output;
  uint64_t seed = 0;
  std::vector<std::string> settings = {};  // adapter settings, "cal.intermediate_size=128"
};

/// Writes a new adapter in float32: the base model bit for bit. An output that holds files is refused.
void write_new_adapter(const NewAdapterRequest& request);

}  // namespace calyrex::train
