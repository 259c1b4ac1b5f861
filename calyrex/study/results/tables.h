// A study's results as CSV and Markdown.
#pragma once

#include <string>

#include "calyrex/base/json.h"

namespace calyrex::study {

/// One line a run, evaluation, metric and axis, of what collect_study() gathered. Depends on configurations
/// and answers alone: no clock in it.
std::string study_csv(const Json& study);

/// Tables for a terminal or a page: runs, main scores, differences with their words.
std::string study_markdown(const Json& study);

/// "0.62 [0.51, 0.70]" in percent where it is a share.
std::string format_interval(const Json& estimate);

}  // namespace calyrex::study
