// Files that the build puts into the program.
#pragma once

#include <string_view>

namespace calyrex::cli {

/// configs/demo.yaml
std::string_view demo_config();
/// web/demo.html, with places for the data and the chart library.
std::string_view demo_page();
/// Chart.js as Debian ships it (MIT licence).
std::string_view chart_library();

}  // namespace calyrex::cli
