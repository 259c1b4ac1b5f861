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
  // The stop that is complete first, as if the text came byte by byte: how it is cut into pieces must not
  // matter.
  size_t first = std::string::npos;
  size_t first_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t begin = held_.find(stop);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    if (end < first_end || (end == first_end && begin < first)) {
      first = begin;
      first_end = end;
    }
  }
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
