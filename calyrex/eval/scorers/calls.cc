#include "calyrex/eval/scorers/calls.h"

#include <array>
#include <optional>
#include <utility>

#include "calyrex/eval/scorers/json_value.h"
#include "calyrex/eval/scorers/python_calls.h"

namespace calyrex::eval {
namespace {

using Calls = std::vector<FunctionCall>;

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::array<std::string_view, 6> kMarkers = {"<tool_call>",  "<functioncall>", "<function_call>",
                                                      "[TOOL_CALLS]", "<|python_tag|>", "<function="};
/// Tries at reading JSON from the middle of prose: a bound on the time that braces without sense can take.
constexpr int kMaxTries = 64;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// An object or list at text[at], as JSON or as Python writes it: {'name': 'f', 'arguments': '{"a": 1}'}.
std::optional<JsonPiece> value_at(std::string_view text, size_t at) {
  if (at >= text.size() || (text[at] != '{' && text[at] != '[')) return std::nullopt;
  std::optional<JsonPiece> piece = json_at(text, at);
  return piece ? piece : python_value_at(text, at);
}

/// Arguments as an object, as the text of one, or absent.
std::optional<Json> read_arguments(const Json& call) {
  for (const char* key : {"arguments", "parameters", "args"}) {
    const auto found = call.find(key);
    if (found == call.end()) continue;
    if (found->is_object()) return *found;
    if (found->is_null()) return Json::object();
    if (!found->is_string()) return std::nullopt;
    const auto& written = found->get_ref<const std::string&>();
    if (trimmed(written).empty()) return Json::object();
    std::optional<JsonPiece> piece = value_at(written, written.find_first_not_of(kSpace));
    if (!piece || !piece->value.is_object()) return std::nullopt;
    return std::move(piece->value);
  }
  return std::nullopt;
}

/// Appends the calls that a value stands for; false when it is anything but calls.
bool append_calls(const Json& value, Calls& calls) {
  if (value.is_array()) {
    for (const Json& item : value) {
      if (!item.is_object() || !append_calls(item, calls)) return false;
    }
    return true;
  }
  if (!value.is_object()) return false;
  if (const auto list = value.find("tool_calls"); list != value.end() && list->is_array()) {
    return append_calls(*list, calls);
  }
  const auto function = value.find("function");
  if (function != value.end() && function->is_object()) return append_calls(*function, calls);
  const auto name = function != value.end() && function->is_string() ? function : value.find("name");
  if (name == value.end() || !name->is_string()) return false;
  std::optional<Json> arguments = read_arguments(value);
  if (!arguments || calls.size() == kMaxCalls) return false;
  calls.push_back({.name = name->get<std::string>(), .arguments = *std::move(arguments)});
  return true;
}

/// Calls when the text is JSON values and nothing else but separators.
std::optional<Calls> whole_json_calls(std::string_view text) {
  Calls calls;
  size_t at = 0;
  while ((at = text.find_first_not_of(" \t\r\n,;", at)) != std::string_view::npos) {
    const std::optional<JsonPiece> piece = value_at(text, at);
    if (!piece || !append_calls(piece->value, calls)) return std::nullopt;
    at = piece->end;
  }
  return calls;
}

std::optional<Calls> whole_calls(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return std::nullopt;
  std::optional<Calls> calls = whole_json_calls(text);
  return calls && !calls->empty() ? calls : parse_python_calls(text);
}

/// Behind "<function=": NAME>{arguments}.
std::optional<FunctionCall> named_call(std::string_view text) {
  constexpr size_t kMaxName = 256;
  const size_t close = text.substr(0, kMaxName).find('>');
  if (close == std::string_view::npos) return std::nullopt;
  const size_t begin = text.find_first_not_of(kSpace, close + 1);
  std::optional<JsonPiece> piece = value_at(text, begin);
  if (!piece || !piece->value.is_object()) return std::nullopt;
  return FunctionCall{.name = std::string(text.substr(0, close)), .arguments = std::move(piece->value)};
}

/// Where the next marker stands, and which.
std::pair<size_t, std::string_view> find_marker(std::string_view text, size_t from) {
  std::pair<size_t, std::string_view> first = {std::string_view::npos, {}};
  for (size_t at = text.find_first_of("<[", from); at != std::string_view::npos;
       at = text.find_first_of("<[", at + 1)) {
    for (const std::string_view marker : kMarkers) {
      if (text.substr(at).starts_with(marker)) return {at, marker};
    }
  }
  return first;
}

/// The text behind a marker up to its closing tag, if there is one.
std::string_view marked_part(std::string_view part, std::string_view marker) {
  if (marker.front() != '<') return part;
  const size_t close = part.find("</");
  return close == std::string_view::npos ? part : part.substr(0, close);
}

/// Nothing when no marker stands in the answer.
std::optional<Calls> marked_calls(std::string_view answer) {
  auto [at, marker] = find_marker(answer, 0);
  if (at == std::string_view::npos) return std::nullopt;
  Calls calls;
  while (at != std::string_view::npos && calls.size() < kMaxCalls) {
    const size_t begin = at + marker.size();
    const auto [next, next_marker] = find_marker(answer, begin);
    const std::string_view part = answer.substr(begin, next == std::string_view::npos ? next : next - begin);
    if (marker == "<function=") {
      if (std::optional<FunctionCall> call = named_call(part)) calls.push_back(*std::move(call));
    } else if (std::optional<Calls> found = whole_calls(marked_part(part, marker))) {
      for (FunctionCall& call : *found) calls.push_back(std::move(call));
    } else if (const size_t open = part.find_first_of("{["); open != std::string_view::npos) {
      // A closing tag may stand inside a string, and words may follow the call.
      if (const std::optional<JsonPiece> piece = value_at(part, open)) append_calls(piece->value, calls);
    }
    at = next;
    marker = next_marker;
  }
  return calls;
}

/// The content of the first code fence.
std::optional<std::string_view> fenced_part(std::string_view answer) {
  constexpr std::string_view kFence = "```";
  const size_t open = answer.find(kFence);
  if (open == std::string_view::npos) return std::nullopt;
  const size_t line = answer.find('\n', open);
  if (line == std::string_view::npos) return std::nullopt;
  const size_t close = answer.find(kFence, line);
  return answer.substr(line + 1, close == std::string_view::npos ? close : close - line - 1);
}

Calls calls_in_prose(std::string_view answer) {
  Calls calls;
  size_t at = answer.find_first_of("{[");
  for (int tries = 0; tries < kMaxTries && at != std::string_view::npos; ++tries) {
    const std::optional<JsonPiece> piece = value_at(answer, at);
    Calls found;
    const bool read = piece && append_calls(piece->value, found) && !found.empty();
    for (FunctionCall& call : found) {
      if (read && calls.size() < kMaxCalls) calls.push_back(std::move(call));
    }
    at = answer.find_first_of("{[", read ? piece->end : at + 1);
  }
  return calls;
}

}  // namespace

Json calls_to_json(const std::vector<FunctionCall>& calls) {
  Json list = Json::array();
  for (const FunctionCall& call : calls) list.push_back({{"name", call.name}, {"arguments", call.arguments}});
  return list;
}

std::vector<FunctionCall> parse_calls(std::string_view answer) {
  if (std::optional<Calls> calls = marked_calls(answer)) return *std::move(calls);
  if (std::optional<Calls> calls = whole_calls(answer)) return *std::move(calls);
  if (const std::optional<std::string_view> fenced = fenced_part(answer)) {
    if (std::optional<Calls> calls = whole_calls(*fenced)) return *std::move(calls);
  }
  return calls_in_prose(answer);
}

}  // namespace calyrex::eval
