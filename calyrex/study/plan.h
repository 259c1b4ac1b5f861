// The runs of a study, each with its whole configuration, checked against the model before anything runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/base/config_node.h"
#include "calyrex/base/json.h"
#include "calyrex/study/config.h"
#include "calyrex/train/config.h"
#include "calyrex/weights/adapter_folder.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::study {

/// One run. What differs only in the seed has one `setting`.
struct PlannedRun {
  std::string name;                          // its folder: setting and seed
  std::string setting;                       // "cal-late8th", "base"
  std::string kind;                          // "base", or a training kind
  std::optional<std::string> placement;      // as written; cal and parallel_mlp
  std::vector<int64_t> layers;               // the same, resolved
  std::string arm = "equal_shape";           // or "equal_params"
  std::optional<int64_t> seed;               // none for the base
  ConfigNode tree;                           // training configuration without output
  std::optional<train::TrainConfig> config;  // the same, read; none for the base
  std::optional<weights::AdapterConfig> adapter;
  int64_t parameters = 0;                     // trained ones
  bool chooses_rate = false;                  // the learning rate is left to `select`
  std::optional<std::string> not_applicable;  // why this cell has no run
  std::optional<std::string> same_as;         // an earlier run of the very same configuration
  std::optional<int64_t> states_layer;        // whose states it shares with other runs (prefix cache)

  /// Whether it is trained and evaluated itself.
  bool runs() const { return !not_applicable && !same_as; }
};

/// The base model, single runs, then grids, each in the order of the file. Throws kInvalidArgument with place
/// and run for a misspelt key, a placement outside the model, settings that contradict each other, or two
/// runs of one name.
std::vector<PlannedRun> plan_runs(const StudyFile& file, const weights::ModelSource& model);

/// The plan as study.json holds it.
Json plan_to_json(const std::vector<PlannedRun>& runs);

}  // namespace calyrex::study
