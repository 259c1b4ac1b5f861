#include "calyrex/eval/scorers/final_number.h"

#include <algorithm>

namespace calyrex::eval {
namespace {

constexpr std::string_view kMarker = "#### ";
constexpr std::string_view kAnswerLine = "\nA: ";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_plain(char c) { return is_digit(c) || c == '.' || c == ','; }
bool is_money(char c) { return is_plain(c) || c == '$'; }

template <typename Predicate>
size_t run_length(std::string_view text, size_t at, Predicate in_run) {
  size_t end = at;
  while (end < text.size() && in_run(text[end])) ++end;
  return end - at;
}

/// The number at `at`, or empty.
std::string_view number_at(std::string_view text, size_t at) {
  const size_t sign = at < text.size() && text[at] == '-' ? 1 : 0;
  const size_t length = run_length(text, at + sign, is_plain);
  return length == 0 ? std::string_view() : text.substr(at, sign + length);
}

/// Where the number after the first marker begins that has one, at or after `from`.
std::optional<size_t> find_marked(std::string_view text, std::string_view marker) {
  for (size_t at = text.find(marker); at != std::string_view::npos; at = text.find(marker, at + 1)) {
    if (!number_at(text, at + marker.size()).empty()) return at + marker.size();
  }
  return std::nullopt;
}

std::string without(std::string_view text, std::string_view dropped) {
  std::string result(text);
  std::erase_if(result, [&](char c) { return dropped.find(c) != std::string_view::npos; });
  return result;
}

std::string normal_number(std::string_view text) {
  std::string result = without(text, ",$");
  if (result.ends_with('.')) result.pop_back();
  return result;
}

}  // namespace

std::optional<std::string> marked_number(std::string_view answer) {
  const std::optional<size_t> hashes = find_marked(answer, kMarker);
  const std::optional<size_t> line = find_marked(answer, kAnswerLine);
  if (!hashes && !line) return std::nullopt;
  const size_t at = !line || (hashes && *hashes < *line) ? *hashes : *line;
  return without(number_at(answer, at), ",");
}

std::optional<std::string> strict_number(std::string_view answer) {
  const std::optional<size_t> at = find_marked(answer, kMarker);
  if (!at) return std::nullopt;
  return std::string(number_at(answer, *at));
}

std::optional<std::string> last_number(std::string_view answer) {
  std::string_view last;
  size_t at = 0;
  while (at < answer.size()) {
    const size_t sign = answer[at] == '-' ? 1 : 0;
    size_t length = run_length(answer, at + sign, is_money);
    // A single character of the run is a number only when it is a digit.
    if (length == 1 && !is_digit(answer[at + sign])) length = 0;
    if (length == 0) {
      ++at;
      continue;
    }
    last = answer.substr(at, sign + length);
    at += sign + length;
  }
  if (last.empty()) return std::nullopt;
  return std::string(last);
}

bool same_number(const std::optional<std::string>& extracted, std::string_view reference) {
  return extracted && normal_number(*extracted) == normal_number(reference);
}

}  // namespace calyrex::eval
