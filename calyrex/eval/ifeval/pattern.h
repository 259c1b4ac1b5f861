// Regular expressions from data, matched as Python's `re` does and never for long. PCRE2 stays behind
// pattern.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "calyrex/eval/ifeval/pattern_syntax.h"

namespace calyrex::ifeval {

/// A compiled pattern. Immutable; safe to use from several threads.
class Pattern {
 public:
  /// `pattern` is UTF-8 in Python's syntax. One that Python would refuse, or that is longer than 10,000
  /// bytes, throws kInvalidArgument: "regular expression 'x(': missing ), unterminated subpattern at position
  /// 2".
  Pattern(std::string_view pattern, Case letter_case);
  ~Pattern();
  Pattern(Pattern&& other) noexcept;
  Pattern& operator=(Pattern&& other) noexcept;

  const std::string& text() const { return text_; }
  int64_t num_groups() const { return num_groups_; }

  /// Number of matches as len(re.findall()) counts them, but no more than `at_most`. `subject` is valid
  /// UTF-8. None when the search takes more steps than 10 million plus 20 for each byte of the subject: the
  /// pattern backtracks without end.
  std::optional<int64_t> count(const std::string& subject, int64_t at_most) const;

 private:
  struct Code;
  std::string text_;
  int64_t num_groups_ = 0;
  std::unique_ptr<Code> code_;
};

}  // namespace calyrex::ifeval
