// Files that the build puts into the program.
#pragma once

#include <string_view>

namespace calyrex::cli {

/// configs/demo.yaml
std::string_view demo_config();
/// web/demo.html, with places for style, data and chart library.
std::string_view demo_page();
/// web/evaluation.html, likewise.
std::string_view evaluation_page();
/// web/analysis.html, likewise.
std::string_view analysis_page();
/// web/study.html and web/scale.html, likewise.
std::string_view study_page();
std::string_view scale_page();
/// web/report.css, the style of all pages.
std::string_view report_style();
/// web/report.js, what the scripts of all pages share.
std::string_view report_script();
/// Chart.js as Debian ships it (MIT licence).
std::string_view chart_library();

}  // namespace calyrex::cli
