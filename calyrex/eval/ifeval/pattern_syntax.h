// The syntax of Python's `re`, written anew for PCRE2.
#pragma once

#include <cstdint>
#include <string>

#include "calyrex/eval/ifeval/python_text.h"

namespace calyrex::ifeval {

enum class Case { kSensitive, kIgnore };

/// A pattern of PCRE2 (UTF and UCP modes, newline LF) that matches what Python's `re` would match.
struct TranslatedPattern {
  std::string pattern;  // UTF-8
  int64_t num_groups = 0;
};

/// Rewrites what differs: `\s`, `\v`, `\Z`, `{,n}`, names of groups, octal and Unicode escapes, `[` within a
/// class, and the letters that Python takes for equal without case and Unicode's folding does not (I, i,
/// U+0130, U+0131 and three pairs of ligatures and Greek letters). What Python refuses throws
/// kInvalidArgument with its reason; so do the flags a, L and u, which nothing here needs.
TranslatedPattern translate_pattern(TextView pattern, Case letter_case);

}  // namespace calyrex::ifeval
