// The demo's report as one HTML file that needs nothing else.
#pragma once

#include <string>

#include "calyrex/base/json.h"

namespace calyrex::cli {

/// `report` is demo.json; `loss` the list of {"step", "loss"} of the training run (or null).
std::string make_demo_page(Json report, const Json& loss);

}  // namespace calyrex::cli
