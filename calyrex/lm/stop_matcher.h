// Stop strings over text that arrives in pieces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace calyrex::lm {

/// Lets text through up to the first stop string, holding back an end that may turn out to begin one. With no
/// stop strings everything passes at once.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// Adds text and returns what became final. After a match nothing passes any more.
  std::string push(std::string_view text);
  /// The text held back, when no more will come; empty after a match.
  std::string finish();
  bool matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool matched_ = false;
};

}  // namespace calyrex::lm
