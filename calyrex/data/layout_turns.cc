// Layouts of several turns: ShareGPT with functions, Glaive's text form, OpenAssistant trees.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/data/layout_internal.h"
#include "calyrex/data/tool_text.h"
#include "calyrex/data/unicode.h"

namespace calyrex::data {
namespace {

constexpr JsonLimits kNestedLimits{.max_bytes = size_t{1} << 20, .max_depth = 64};

struct Call {
  std::string name;
  Json arguments = Json::object();
};

std::optional<Json> nested_json(std::string_view text) {
  try {
    return parse_json(text, "call", kNestedLimits);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// {"name": ..., "arguments": {...}}; the arguments may be JSON as text.
std::optional<Call> parse_call(std::string_view text) {
  const std::optional<Json> json = nested_json(text);
  if (!json || !json->is_object() || !json->contains("name") || !(*json)["name"].is_string()) {
    return std::nullopt;
  }
  Call call{.name = (*json)["name"].get<std::string>()};
  if (!json->contains("arguments")) return call;
  const Json& arguments = (*json)["arguments"];
  std::optional<Json> inner = arguments;
  if (arguments.is_string()) inner = nested_json(arguments.get_ref<const std::string&>());
  if (!inner || !inner->is_object()) return std::nullopt;
  call.arguments = std::move(*inner);
  return call;
}

text::Message call_message(const Call& call, ToolForm form) {
  if (form == ToolForm::kText) return make_message("assistant", tool_call_text(call.name, call.arguments));
  const Json function = {{"name", call.name}, {"arguments", call.arguments}};
  text::Message message = make_message("assistant", "");
  message.has_content = false;
  message.extra["tool_calls"] = Json::array({{{"type", "function"}, {"function", function}}});
  return message;
}

text::Message result_message(std::string result, ToolForm form) {
  if (form == ToolForm::kTemplate) return make_message("tool", std::move(result));
  return make_message("user", tool_response_text(result));
}

/// Tells the model of the functions: in the system message, or as the row's tools.
void add_functions(const Json& functions, ToolForm form, ChatRow& row) {
  if (functions.empty()) return;
  if (form == ToolForm::kTemplate) {
    row.tools = to_template_tools(functions);
    return;
  }
  const std::string instruction = tool_instruction(functions);
  if (!row.messages.empty() && row.messages.front().role == "system") {
    row.messages.front().content += "\n\n" + instruction;
  } else {
    row.messages.insert(row.messages.begin(), make_message("system", instruction));
  }
}

/// "tools" of a ShareGPT row: JSON as text, a list, or absent.
Json read_functions(const Json& json, std::string_view source) {
  if (!json.contains("tools") || json["tools"].is_null()) return Json::array();
  std::optional<Json> tools = json["tools"];
  if (tools->is_string()) {
    const auto text = tools->get<std::string>();
    tools = text.empty() ? Json::array() : nested_json(text);
  }
  if (!tools || !tools->is_array())
    fail_layout(source, Layout::kShareGpt, "\"tools\" is no list of functions");
  for (Json& tool : *tools) {
    if (tool.is_object() && tool.contains("function")) tool = Json(tool["function"]);
    if (!tool.is_object()) fail_layout(source, Layout::kShareGpt, "\"tools\" is no list of functions");
  }
  return *tools;
}

/// A stretch of Glaive's text that begins with one of its marks.
struct GlaiveTurn {
  std::string_view mark;
  std::string text;
};

std::vector<GlaiveTurn> split_glaive(std::string_view chat) {
  static constexpr std::array<std::string_view, 3> kMarks = {"USER:", "ASSISTANT:", "FUNCTION RESPONSE:"};
  struct Place {
    size_t begin;
    std::string_view mark;
  };
  std::vector<Place> places;
  for (size_t line = 0; line < chat.size();) {
    const size_t start = std::min(chat.find_first_not_of(" \t", line), chat.size());
    for (const std::string_view mark : kMarks) {
      if (chat.substr(start).starts_with(mark)) places.push_back({.begin = start, .mark = mark});
    }
    const size_t end = chat.find('\n', line);
    line = end == std::string_view::npos ? chat.size() : end + 1;
  }
  std::vector<GlaiveTurn> turns;
  for (size_t i = 0; i < places.size(); ++i) {
    const size_t begin = places[i].begin + places[i].mark.size();
    const size_t end = i + 1 < places.size() ? places[i + 1].begin : chat.size();
    std::string text = trim(chat.substr(begin, end - begin));
    constexpr std::string_view kEnd = "<|endoftext|>";
    if (text.ends_with(kEnd)) text = trim(std::string_view(text).substr(0, text.size() - kEnd.size()));
    turns.push_back({.mark = places[i].mark, .text = std::move(text)});
  }
  return turns;
}

/// Glaive writes the arguments as JSON between single quotes.
std::optional<Call> parse_glaive_call(std::string_view text) {
  const size_t open = text.find("'{"), close = text.rfind("}'");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return parse_call(text);
  }
  const std::string whole = fmt::format("{}{}{}", text.substr(0, open), text.substr(open + 1, close - open),
                                        text.substr(close + 2));
  return parse_call(whole);
}

/// The JSON objects that stand one after the other in the system text.
Json glaive_functions(std::string_view system) {
  Json functions = Json::array();
  int depth = 0;
  size_t begin = 0;
  bool quoted = false;
  for (size_t i = 0; i < system.size(); ++i) {
    const char c = system[i];
    if (depth > 0 && c == '"' && system[i - 1] != '\\') quoted = !quoted;
    if (quoted) continue;
    if (c == '{' && depth++ == 0) begin = i;
    if (c == '}' && depth > 0 && --depth == 0) {
      if (auto function = nested_json(system.substr(begin, i + 1 - begin))) {
        functions.push_back(std::move(*function));
      }
    }
  }
  return functions;
}

template <typename Value>
bool is(const Json& json, const char* name, const Value& value) {
  return json.contains(name) && json[name] == value;
}

/// Best rank first; without a rank last.
const Json* best_reply(const Json& message) {
  const Json* best = nullptr;
  int64_t best_rank = std::numeric_limits<int64_t>::max();
  if (!message.contains("replies") || !message["replies"].is_array()) return nullptr;
  for (const Json& reply : message["replies"]) {
    if (!reply.is_object() || is(reply, "deleted", true) || is(reply, "review_result", false)) continue;
    const bool ranked = reply.contains("rank") && reply["rank"].is_number_integer();
    const int64_t rank = ranked ? reply["rank"].get<int64_t>() : std::numeric_limits<int64_t>::max() - 1;
    if (rank < best_rank) {
      best = &reply;
      best_rank = rank;
    }
  }
  return best;
}

}  // namespace

std::vector<LaidOutRow> read_share_gpt(const Json& json, std::string_view source,
                                       const LayoutOptions& options) {
  Json copy = json;
  copy.erase("tools");
  copy.erase("messages");
  if (copy.contains("chosen") && copy["chosen"].is_object() && copy.contains("conversations") &&
      copy["conversations"].is_array()) {
    copy["conversations"].push_back(copy["chosen"]);
  }
  LaidOutRow result{.row = parse_row(copy, source)};
  text::Messages& messages = result.row.messages;
  const Json& turns = copy["conversations"];
  const size_t offset = messages.size() - turns.size();
  for (size_t i = 0; i < turns.size(); ++i) {
    text::Message& message = messages[offset + i];
    if (turns[i]["from"] == "function_call") {
      const std::optional<Call> call = parse_call(message.content);
      if (!call) return {};
      message = call_message(*call, options.tools);
    } else if (message.role == "tool") {
      message = result_message(message.content, options.tools);
    }
  }
  add_functions(read_functions(json, source), options.tools, result.row);
  return {std::move(result)};
}

std::vector<LaidOutRow> read_glaive(const Json& json, std::string_view source, const LayoutOptions& options) {
  LaidOutRow result;
  text::Messages& messages = result.row.messages;
  for (const GlaiveTurn& turn : split_glaive(layout_text(json, "chat", source, Layout::kGlaive))) {
    constexpr std::string_view kCall = "<functioncall>";
    if (turn.mark == "USER:") {
      messages.push_back(make_message("user", turn.text));
    } else if (turn.mark == "FUNCTION RESPONSE:") {
      messages.push_back(result_message(turn.text, options.tools));
    } else if (turn.text.starts_with(kCall)) {
      const std::optional<Call> call = parse_glaive_call(std::string_view(turn.text).substr(kCall.size()));
      if (!call) return {};
      messages.push_back(call_message(*call, options.tools));
    } else {
      messages.push_back(make_message("assistant", turn.text));
    }
  }
  if (messages.empty()) fail_layout(source, Layout::kGlaive, "no turn of USER: or ASSISTANT:");
  const std::string system = json.contains("system") && json["system"].is_string()
                                 ? json["system"].get<std::string>()
                                 : std::string();
  const Json functions = glaive_functions(system);
  if (functions.empty() && !system.empty()) {
    constexpr std::string_view kMark = "SYSTEM:";
    std::string_view text = system;
    if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
    messages.insert(messages.begin(), make_message("system", trim(text)));
  }
  add_functions(functions, options.tools, result.row);
  return {std::move(result)};
}

std::vector<LaidOutRow> read_oasst(const Json& json, std::string_view source, const LayoutOptions& options) {
  const Json* message = json.contains("prompt") && json["prompt"].is_object() ? &json["prompt"] : nullptr;
  if (message == nullptr) fail_layout(source, Layout::kOasst, "\"prompt\" is no message with replies");
  if (!options.language.empty() && !is(*message, "lang", options.language)) return {};
  LaidOutRow result;
  text::Messages& messages = result.row.messages;
  for (; message != nullptr; message = best_reply(*message)) {
    const std::string& role = layout_text(*message, "role", source, Layout::kOasst);
    if (role != "prompter" && role != "assistant") {
      fail_layout(source, Layout::kOasst, fmt::format("unknown role \"{}\" (prompter, assistant)", role));
    }
    messages.push_back(make_message(role == "prompter" ? "user" : "assistant",
                                    layout_text(*message, "text", source, Layout::kOasst)));
  }
  while (!messages.empty() && messages.back().role != "assistant") messages.pop_back();
  if (messages.empty()) return {};
  return {std::move(result)};
}

}  // namespace calyrex::data
