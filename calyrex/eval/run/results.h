// results.json: what a task gave for one model.
#pragma once

#include <string>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/eval/core/task.h"
#include "calyrex/eval/run/run_folder.h"

namespace calyrex::eval {

/// One outcome a sample. `description` holds the run's own keys (model, adapter, form, seed, ...), which
/// follow the metrics. At most 100 ungraded samples are listed with their reasons.
Json make_results(const Task& task, const Samples& samples, const std::vector<Outcome>& outcomes,
                  const Json& description);

/// {"value", "low", "high"} and back; throws kCorruptData naming `source`.
data::Estimate metric_from_json(const Json& json, std::string_view source);

}  // namespace calyrex::eval
