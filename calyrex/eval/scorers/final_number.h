// The number that a worked solution ends in (GSM8K).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace calyrex::eval {

/// What follows the first "#### " or line that begins with "A: " (the published example solutions write
/// that): a minus and digits, points and commas, commas removed. The rule of the set's own authors. Linear
/// time.
std::optional<std::string> marked_number(std::string_view answer);

/// Likewise after "#### " alone, as lm-evaluation-harness's filter `strict-match` takes it.
std::optional<std::string> strict_number(std::string_view answer);

/// The last run that looks like a number, as its filter `flexible-extract` takes it: two or more of
/// `$ 0-9 . ,`, or digits, with a minus before them.
std::optional<std::string> last_number(std::string_view answer);

/// Whether an extracted number equals the reference after removing `,`, `$` and one final point, as the
/// metric `exact_match` of lm-evaluation-harness's gsm8k does. No number equals nothing.
bool same_number(const std::optional<std::string>& extracted, std::string_view reference);

}  // namespace calyrex::eval
