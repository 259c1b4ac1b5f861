#include "calyrex/data/row.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"

namespace calyrex::data {
namespace {

constexpr size_t kMaxListFileBytes = size_t{2} << 30;

[[noreturn]] void fail_row(std::string_view source, std::string_view what) {
  fail(ErrorCode::kInvalidArgument,
       "{}: {} (a row is {{\"messages\": [...]}}, ShareGPT {{\"conversations\": [...]}} or Alpaca "
       "{{\"instruction\", \"input\", \"output\"}})",
       source, what);
}

const std::string& text_field(const Json& json, const char* name, std::string_view source) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) fail_row(source, fmt::format("\"{}\" is no text", name));
  return found->get_ref<const std::string&>();
}

std::string optional_text(const Json& json, const char* name, std::string_view source) {
  if (!json.contains(name) || json[name].is_null()) return {};
  return text_field(json, name, source);
}

void add_message(text::Messages& messages, std::string role, std::string content) {
  text::Message message;
  message.role = std::move(role);
  message.content = std::move(content);
  messages.push_back(std::move(message));
}

text::Messages parse_share_gpt(const Json& json, std::string_view source) {
  const Json& turns = json["conversations"];
  if (!turns.is_array() || turns.empty()) fail_row(source, "\"conversations\" is no list of turns");
  static constexpr auto kRoles =
      std::to_array<std::pair<std::string_view, std::string_view>>({{"system", "system"},
                                                                    {"human", "user"},
                                                                    {"user", "user"},
                                                                    {"gpt", "assistant"},
                                                                    {"chatgpt", "assistant"},
                                                                    {"assistant", "assistant"},
                                                                    {"model", "assistant"},
                                                                    {"bing", "assistant"},
                                                                    {"bard", "assistant"},
                                                                    {"function_call", "assistant"},
                                                                    {"observation", "tool"},
                                                                    {"tool", "tool"}});
  text::Messages messages;
  const std::string system = optional_text(json, "system", source);
  if (!system.empty()) add_message(messages, "system", system);
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::string place = fmt::format("{}: conversations[{}]", source, i);
    if (!turns[i].is_object()) fail_row(place, "no object");
    const std::string& from = text_field(turns[i], "from", place);
    std::string_view role;
    for (const auto& [name, meaning] : kRoles) {
      if (from == name) role = meaning;
    }
    if (role.empty())
      fail_row(place, fmt::format("unknown \"from\": \"{}\" (system, human, gpt, ...)", from));
    add_message(messages, std::string(role), text_field(turns[i], "value", place));
  }
  return messages;
}

text::Messages parse_alpaca(const Json& json, std::string_view source) {
  text::Messages messages;
  const std::string system = optional_text(json, "system", source);
  if (!system.empty()) add_message(messages, "system", system);
  if (json.contains("history") && !json["history"].is_null()) {
    if (!json["history"].is_array()) fail_row(source, "\"history\" is no list of [question, answer] pairs");
    for (const Json& turn : json["history"]) {
      if (!turn.is_array() || turn.size() != 2 || !turn[0].is_string() || !turn[1].is_string()) {
        fail_row(source, "\"history\" is no list of [question, answer] pairs");
      }
      add_message(messages, "user", turn[0].get<std::string>());
      add_message(messages, "assistant", turn[1].get<std::string>());
    }
  }
  std::string user = text_field(json, "instruction", source);
  const std::string input = optional_text(json, "input", source);
  if (!input.empty()) user += "\n\n" + input;
  add_message(messages, "user", std::move(user));
  add_message(messages, "assistant", text_field(json, "output", source));
  return messages;
}

/// "id" as text; numbers are common in public sets.
std::string row_id(const Json& json, std::string_view source) {
  const auto found = json.find("id");
  if (found == json.end() || found->is_null()) return std::string(source);
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number_integer()) return found->dump();
  fail_row(source, "\"id\" is neither text nor a whole number");
}

}  // namespace

ChatRow parse_row(const Json& json, std::string_view source) {
  if (!json.is_object()) fail_row(source, "no object");
  ChatRow row;
  row.source = source;
  std::vector<std::string_view> used = {"id", "tools"};
  if (json.contains("messages")) {
    row.messages = text::parse_messages(json["messages"], source);
    used.push_back("messages");
  } else if (json.contains("conversations")) {
    row.messages = parse_share_gpt(json, source);
    used.insert(used.end(), {"conversations", "system"});
  } else if (json.contains("instruction")) {
    row.messages = parse_alpaca(json, source);
    used.insert(used.end(), {"instruction", "input", "output", "system", "history"});
  } else {
    fail_row(source, "no \"messages\", \"conversations\" or \"instruction\"");
  }
  if (row.messages.empty()) fail_row(source, "the chat is empty");
  row.id = row_id(json, source);
  if (json.contains("tools")) row.tools = text::parse_tools(json["tools"], source);
  for (const auto& [key, value] : json.items()) {
    if (std::find(used.begin(), used.end(), key) == used.end()) row.fields[key] = value;
  }
  return row;
}

void for_each_json_row(const std::filesystem::path& path, const std::function<void(int64_t, Json)>& value) {
  if (path.extension() != ".json") {
    for_each_json_line(path, value);
    return;
  }
  Json list = read_json_file(path, {.max_bytes = kMaxListFileBytes});
  if (!list.is_array()) fail(ErrorCode::kInvalidArgument, "{}: expected a list of rows", path.string());
  for (size_t i = 0; i < list.size(); ++i) value(static_cast<int64_t>(i) + 1, std::move(list[i]));
}

void for_each_row(const std::filesystem::path& path, const std::function<void(ChatRow)>& row) {
  const std::string name = path.filename().string();
  for_each_json_row(path, [&](int64_t number, const Json& json) {
    ChatRow parsed = parse_row(json, fmt::format("{}:{}", path.string(), number));
    if (!json.contains("id") || json["id"].is_null()) parsed.id = fmt::format("{}:{}", name, number);
    row(std::move(parsed));
  });
}

std::vector<ChatRow> read_rows(const std::filesystem::path& path) {
  std::vector<ChatRow> rows;
  for_each_row(path, [&](ChatRow row) { rows.push_back(std::move(row)); });
  return rows;
}

Json row_to_json(const ChatRow& row, RowFormat format) {
  Json json = Json::object();
  json["id"] = row.id;
  switch (format) {
    case RowFormat::kMessages:
      json["messages"] = text::messages_to_json(row.messages);
      break;
    case RowFormat::kShareGpt: {
      json["conversations"] = Json::array();
      for (const text::Message& message : row.messages) {
        const std::string_view from = message.role == "user"        ? "human"
                                      : message.role == "assistant" ? "gpt"
                                                                    : std::string_view(message.role);
        Json turn = Json::object();
        turn["from"] = from;
        turn["value"] = message.content;
        json["conversations"].push_back(std::move(turn));
      }
      break;
    }
    case RowFormat::kAlpaca: {
      text::Messages turns = row.messages;
      if (!turns.empty() && turns.front().role == "system") {
        json["system"] = turns.front().content;
        turns.erase(turns.begin());
      }
      const bool pairs = turns.size() >= 2 && turns.size() % 2 == 0;
      if (!pairs)
        fail(ErrorCode::kInvalidArgument, "row {}: Alpaca holds pairs of user and assistant alone", row.id);
      for (size_t i = 0; i < turns.size(); ++i) {
        if (turns[i].role != (i % 2 == 0 ? "user" : "assistant")) {
          fail(ErrorCode::kInvalidArgument, "row {}: Alpaca holds pairs of user and assistant alone", row.id);
        }
      }
      json["instruction"] = turns[turns.size() - 2].content;
      json["input"] = "";
      json["output"] = turns.back().content;
      for (size_t i = 0; i + 2 < turns.size(); i += 2) {
        json["history"].push_back(Json::array({turns[i].content, turns[i + 1].content}));
      }
      break;
    }
  }
  if (!row.tools.is_null()) json["tools"] = row.tools;
  for (const auto& [key, value] : row.fields.items()) json[key] = value;
  return json;
}

}  // namespace calyrex::data
