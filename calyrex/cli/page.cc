#include "calyrex/cli/page.h"

#include <string_view>

#include "calyrex/base/error.h"
#include "calyrex/cli/embedded.h"

namespace calyrex::cli {
namespace {

/// JSON for a script element: answers may hold "</script>".
std::string script_json(const Json& json) {
  std::string text;
  for (const char c : to_json_line(json)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

void append_until(std::string& result, std::string_view& page, std::string_view mark) {
  const size_t at = page.find(mark);
  CALYREX_CHECK(at != std::string_view::npos, "the page has no {}", mark);
  result += page.substr(0, at);
  page.remove_prefix(at + mark.size());
}

/// A page with style, data, chart library and what pages share in their places.
std::string fill_page(std::string_view page, const Json& data) {
  std::string result;
  append_until(result, page, "@STYLE@");
  result += report_style();
  append_until(result, page, "@DATA@");
  result += script_json(data);
  append_until(result, page, "@CHART@");
  result += chart_library();
  append_until(result, page, "@REPORT@");
  result += report_script();
  result += page;
  return result;
}

}  // namespace

std::string make_demo_page(Json report, const Json& loss) {
  report["loss"] = loss;
  return fill_page(demo_page(), report);
}

std::string make_analysis_page(const Json& report) { return fill_page(analysis_page(), report); }

std::string make_evaluation_page(const Json& report) { return fill_page(evaluation_page(), report); }

std::string make_study_page(const Json& study) { return fill_page(study_page(), study); }

std::string make_scale_page(const Json& scale) { return fill_page(scale_page(), scale); }

}  // namespace calyrex::cli
