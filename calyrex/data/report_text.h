// The rule table as people read it in a terminal.
#pragma once

#include <optional>
#include <string>

#include "calyrex/data/grader.h"

namespace calyrex::data {

/// "46 % [38, 55]"
std::string format_share(const Estimate& estimate);

/// One line a rule: joint measure with its interval, rule part and content part; never-trained rules and
/// other sorts on their own lines; means last.
std::string format_report(const RuleReport& report);

/// Two reports over the same rows side by side ("base" and "adapter").
std::string format_comparison(const RuleReport& base, const RuleReport& adapter, const Estimate& difference);

}  // namespace calyrex::data
