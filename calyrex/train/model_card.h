// README.md of what a run leaves behind: what it is, how to use it, how it was trained, its limits.
#pragma once

#include <cstdint>
#include <string>

#include "calyrex/train/run_folder.h"

namespace calyrex::train {

/// A record without results is of an adapter that was not trained.
std::string adapter_card(const weights::AdapterConfig& config, const RunRecord& record,
                         int64_t num_parameters);

/// Of a model that was trained itself.
std::string full_model_card(const std::string& base_model, const RunRecord& record, int64_t num_parameters);

}  // namespace calyrex::train
