// Reports as one HTML file that needs nothing else.
#pragma once

#include <string>

#include "calyrex/base/json.h"

namespace calyrex::cli {

/// `report` is demo.json; `loss` the list of {"step", "loss"} of the training run (or null).
std::string make_demo_page(Json report, const Json& loss);

/// `report` as eval::make_report() gives it.
std::string make_evaluation_page(const Json& report);

/// `report` of the activation analysis.
std::string make_analysis_page(const Json& report);

/// `study` as study::collect_study() gives it.
std::string make_study_page(const Json& study);

/// `scale` as study::collect_scale() gives it.
std::string make_scale_page(const Json& scale);

}  // namespace calyrex::cli
