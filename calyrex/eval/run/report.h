// The results of several tasks and models as one report.
#pragma once

#include <string>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/eval/run/runner.h"

namespace calyrex::eval {

/// {"runs": [results...], "comparisons": [...]}: all results, and each adapter against the base of its task
/// where both have graded samples.
Json make_report(const std::vector<Finished>& finished);

/// "36.97 % [32.9, 41.2]"; values outside [0, 1] as plain numbers.
std::string format_estimate(const data::Estimate& estimate);

/// Tables for a terminal or a page: a row a headline metric, a column a model.
std::string report_markdown(const Json& report);

}  // namespace calyrex::eval
