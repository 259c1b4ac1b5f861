// SysBench criteria that quote a literal text and say plainly what to do with it: checked without a judge. A
// proxy of our own, reported under its own name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace calyrex::eval {

struct LiteralCheck {
  enum class Kind { kContains, kLacks, kStarts, kEnds };
  Kind kind = Kind::kContains;
  std::string literal;
};

/// The check of a criterion with exactly one quoted literal that is not a pattern, and whose wording is one
/// of a few: begin with, end with, contain (say, reply), not contain. nullopt for every other criterion.
std::optional<LiteralCheck> parse_literal_check(std::string_view criterion);

/// Whether an answer passes. White space around the answer does not count; at a required beginning or end
/// neither do Markdown signs and stops.
bool passes_literal(const LiteralCheck& check, std::string_view answer);

}  // namespace calyrex::eval
