#include "calyrex/base/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace calyrex {
namespace {

size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<size_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= left.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= right.size(); ++j) {
      const size_t substitution = diagonal + (left[i - 1] == right[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row.back();
}

std::string found_text(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::kNull:
      return "nothing";
    case ConfigNode::Kind::kScalar:
      return fmt::format("'{}'", node.scalar.substr(0, 80));
    case ConfigNode::Kind::kList:
      return "a list";
    case ConfigNode::Kind::kMap:
      return "a map";
  }
  return "?";
}

}  // namespace

std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

namespace fields_internal {

std::string join_key(std::string_view parent, std::string_view key) {
  return parent.empty() ? std::string(key) : fmt::format("{}.{}", parent, key);
}

void fail_kind(const ConfigNode& node, std::string_view key, std::string_view expected) {
  fail(ErrorCode::kInvalidArgument, "{}: '{}' must be {}, found {}", node.place, key, expected,
       found_text(node));
}

void fail_unknown_key(const ConfigNode& node, std::string_view key, const std::vector<std::string>& known) {
  const size_t dot = key.rfind('.');
  const std::string near = nearest_word(dot == std::string_view::npos ? key : key.substr(dot + 1), known);
  std::string all;
  for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
  fail(ErrorCode::kInvalidArgument, "{}: unknown key '{}'; {}", node.place, key,
       near.empty() ? fmt::format("known here: {}", all) : fmt::format("did you mean '{}'?", near));
}

void fail_unknown_choice(const ConfigNode& node, std::string_view key,
                         const std::vector<std::string>& choices) {
  std::string all;
  for (const std::string& choice : choices) all += (all.empty() ? "" : ", ") + choice;
  fail_kind(node, key, fmt::format("one of {}", all));
}

bool parse_bool(const ConfigNode& node, std::string_view key) {
  if (node.kind == ConfigNode::Kind::kScalar && node.scalar == "true") return true;
  if (node.kind == ConfigNode::Kind::kScalar && node.scalar == "false") return false;
  fail_kind(node, key, "true or false");
}

int64_t parse_int(const ConfigNode& node, std::string_view key) {
  const std::string& text = node.scalar;
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (node.kind != ConfigNode::Kind::kScalar || parsed.ec != std::errc() ||
      parsed.ptr != text.data() + text.size()) {
    fail_kind(node, key, "a whole number");
  }
  return value;
}

double parse_double(const ConfigNode& node, std::string_view key) {
  const std::string& text = node.scalar;
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (node.kind != ConfigNode::Kind::kScalar || parsed.ec != std::errc() ||
      parsed.ptr != text.data() + text.size() || !std::isfinite(value)) {
    fail_kind(node, key, "a number");
  }
  return value;
}

std::string parse_string(const ConfigNode& node, std::string_view key) {
  if (node.kind != ConfigNode::Kind::kScalar) fail_kind(node, key, "text");
  return node.scalar;
}

}  // namespace fields_internal
}  // namespace calyrex
