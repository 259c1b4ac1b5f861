#include "calyrex/eval/judge/judgement.h"

#include <algorithm>
#include <array>
#include <utility>

#include "calyrex/base/error.h"
#include "calyrex/base/json.h"
#include "calyrex/data/unicode.h"

namespace calyrex::eval {
namespace {

constexpr size_t kMaxAnswer = size_t{1} << 20;
constexpr size_t kMaxWord = 64;

constexpr std::array<std::pair<std::string_view, Decision>, 14> kWords = {{
    {"yes", Decision::kYes},
    {"true", Decision::kYes},
    {"pass", Decision::kYes},
    {"是", Decision::kYes},
    {"no", Decision::kNo},
    {"false", Decision::kNo},
    {"fail", Decision::kNo},
    {"否", Decision::kNo},
    {"n/a", Decision::kNotApplicable},
    {"na", Decision::kNotApplicable},
    {"not applicable", Decision::kNotApplicable},
    {"not_applicable", Decision::kNotApplicable},
    {"inapplicable", Decision::kNotApplicable},
    {"不适用", Decision::kNotApplicable},
}};

std::optional<Decision> decision_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? Decision::kYes : Decision::kNo;
  if (value.is_string()) return parse_decision(value.get<std::string>());
  if (!value.is_object()) return std::nullopt;
  for (const char* name : {"verdict", "decision", "result", "answer", "判断结果", "结论"}) {
    if (const auto found = value.find(name); found != value.end()) {
      return found->is_object() ? std::nullopt : decision_of(*found);
    }
  }
  return std::nullopt;
}

/// Begin and end of the last top-level {...}, found from left to right so that braces within strings count
/// as text.
std::optional<std::string_view> last_object(std::string_view text) {
  std::optional<std::string_view> last;
  size_t begin = 0;
  int depth = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char byte = text[at];
    if (in_string) {
      if (byte == '\\') {
        ++at;
      } else if (byte == '"') {
        in_string = false;
      }
    } else if (byte == '"' && depth > 0) {
      in_string = true;
    } else if (byte == '{') {
      if (depth++ == 0) begin = at;
    } else if (byte == '}' && depth > 0 && --depth == 0) {
      last = text.substr(begin, at + 1 - begin);
    }
  }
  return last;
}

}  // namespace

std::string_view decision_name(Decision decision) {
  switch (decision) {
    case Decision::kYes:
      return "yes";
    case Decision::kNo:
      return "no";
    case Decision::kNotApplicable:
      return "n/a";
  }
  return "?";
}

std::optional<Decision> parse_decision(std::string_view word) {
  if (word.size() > kMaxWord) return std::nullopt;
  const std::string plain = data::to_lower(data::trim_punctuation(word));
  for (const auto& [name, decision] : kWords) {
    if (plain == name) return decision;
  }
  return std::nullopt;
}

std::optional<std::map<std::string, Decision>> read_judgement(std::string_view answer,
                                                              const std::vector<std::string>& ids) {
  if (answer.size() > kMaxAnswer) return std::nullopt;
  const std::optional<std::string_view> object = last_object(answer);
  if (!object) return std::nullopt;
  Json json;
  try {
    json = parse_json(*object, "judgement", {.max_bytes = kMaxAnswer, .max_depth = 16});
  } catch (const Error&) {
    return std::nullopt;  // an expected outcome: the judgement cannot be read
  }
  std::map<std::string, Decision> decisions;
  for (const std::string& id : ids) {
    const auto found = json.find(id);
    if (found == json.end()) return std::nullopt;
    const std::optional<Decision> decision = decision_of(*found);
    if (!decision) return std::nullopt;
    decisions[id] = *decision;
  }
  return decisions;
}

}  // namespace calyrex::eval
