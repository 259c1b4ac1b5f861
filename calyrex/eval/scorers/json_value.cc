#include "calyrex/eval/scorers/json_value.h"

#include <algorithm>
#include <utility>

namespace calyrex::eval {
namespace {

/// End of the bracketed value that begins at text[0]; nothing when it is unbalanced, too long or too deep.
std::optional<size_t> bracketed_end(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxAnswerJsonDepth) return std::nullopt;
    } else if (c == '}' || c == ']') {
      if (--depth == 0) return i + 1;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<JsonPiece> json_at(std::string_view text, size_t at) {
  if (at >= text.size() || (text[at] != '{' && text[at] != '[')) return std::nullopt;
  text = text.substr(at, kMaxAnswerJsonBytes);
  const std::optional<size_t> end = bracketed_end(text);
  if (!end) return std::nullopt;
  text = text.substr(0, *end);
  Json value = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return std::nullopt;
  return JsonPiece{.value = std::move(value), .end = at + *end};
}

bool same_json(const Json& a, const Json& b) {
  if (a.is_object() && b.is_object()) {
    return a.size() == b.size() && std::all_of(a.items().begin(), a.items().end(), [&](const auto& entry) {
             const auto found = b.find(entry.key());
             return found != b.end() && same_json(entry.value(), *found);
           });
  }
  if (a.is_array() && b.is_array()) return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_json);
  return a == b;
}

}  // namespace calyrex::eval
