#include "calyrex/text/message.h"

#include <algorithm>
#include <array>

#include "calyrex/base/error.h"

namespace calyrex::text {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};

std::string joined_parts(const Json& parts, const std::string& place) {
  std::string text;
  for (const Json& part : parts) {
    const bool is_text = part.is_object() && part.contains("type") && part["type"] == "text" &&
                         part.contains("text") && part["text"].is_string();
    if (!is_text) {
      fail(ErrorCode::kInvalidArgument, "{}: a content part is not {{\"type\": \"text\", \"text\": ...}}",
           place);
    }
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

Message parse_message(const Json& json, const std::string& place) {
  if (!json.is_object()) fail(ErrorCode::kInvalidArgument, "{}: not an object with role and content", place);
  Message message;
  const auto role = json.find("role");
  if (role == json.end() || !role->is_string())
    fail(ErrorCode::kInvalidArgument, "{}: role is missing", place);
  message.role = role->get<std::string>();
  if (std::find(kRoles.begin(), kRoles.end(), message.role) == kRoles.end()) {
    fail(ErrorCode::kInvalidArgument, "{}: role \"{}\" is none of system, developer, user, assistant, tool",
         place, message.role);
  }
  const auto content = json.find("content");
  if (content == json.end() || content->is_null()) {
    if (message.role != "assistant" || json.value("tool_calls", Json()).empty()) {
      fail(ErrorCode::kInvalidArgument, "{}: content is missing", place);
    }
    message.has_content = false;
  } else if (content->is_string()) {
    message.content = content->get<std::string>();
  } else if (content->is_array()) {
    message.content = joined_parts(*content, place);
  } else {
    fail(ErrorCode::kInvalidArgument, "{}: content is neither a string nor a list of text parts", place);
  }
  for (const auto& [key, value] : json.items()) {
    if (key != "role" && key != "content") message.extra[key] = value;
  }
  return message;
}

}  // namespace

Messages parse_messages(const Json& json, std::string_view source) {
  if (!json.is_array() || json.empty()) {
    fail(ErrorCode::kInvalidArgument, "{}: messages must be a list of at least one message", source);
  }
  Messages messages;
  messages.reserve(json.size());
  for (const Json& item : json) {
    messages.push_back(parse_message(item, fmt::format("{}: messages[{}]", source, messages.size())));
  }
  return messages;
}

Json parse_tools(const Json& json, std::string_view source) {
  bool valid = json.is_null() || json.is_array();
  if (json.is_array()) {
    for (const Json& tool : json) valid = valid && tool.is_object();
  }
  if (!valid) fail(ErrorCode::kInvalidArgument, "{}: tools must be a list of objects", source);
  return json;
}

Json messages_to_json(const Messages& messages) {
  Json json = Json::array();
  for (const Message& message : messages) {
    Json item = {{"role", message.role}};
    item["content"] = message.has_content ? Json(message.content) : Json(nullptr);
    for (const auto& [key, value] : message.extra.items()) item[key] = value;
    json.push_back(std::move(item));
  }
  return json;
}

}  // namespace calyrex::text
