#include "calyrex/lm/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace calyrex::lm {
namespace {

/// Length of the longest end of `text` that is a proper beginning of `stop`.
size_t partial_match(std::string_view text, std::string_view stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.ends_with(stop.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

std::string StopMatcher::push(std::string_view text) {
  if (matched_) return {};
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    matched_ = true;
    std::string passed = held_.substr(0, first);
    held_.clear();
    return passed;
  }
  size_t keep = 0;
  for (const std::string& stop : stops_) keep = std::max(keep, partial_match(held_, stop));
  std::string passed = held_.substr(0, held_.size() - keep);
  held_.erase(0, passed.size());
  return passed;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

}  // namespace calyrex::lm
