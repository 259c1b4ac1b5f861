// JSON inside answers: untrusted text, where not being JSON is an expected outcome.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "calyrex/base/json.h"

namespace calyrex::eval {

/// A longer or deeper value in an answer is not read.
inline constexpr size_t kMaxAnswerJsonBytes = size_t{64} << 10;
inline constexpr int kMaxAnswerJsonDepth = 64;

/// A value and where it ends in the text.
struct JsonPiece {
  Json value;
  size_t end = 0;
};

/// The object or list that begins at text[at], or nothing. Looks at no more than kMaxAnswerJsonBytes.
std::optional<JsonPiece> json_at(std::string_view text, size_t at);

/// Equality of values: numbers by value (1 equals 1.0), objects whatever the order of their keys.
bool same_json(const Json& a, const Json& b);

}  // namespace calyrex::eval
