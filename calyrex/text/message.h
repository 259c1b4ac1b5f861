// A chat as the OpenAI format has it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"

namespace calyrex::text {

/// One message. `extra` holds every other field (tool_calls, name, reasoning_content, ...) as given;
/// templates see them. `content` is null (has_content false) for an assistant message of tool calls alone.
struct Message {
  std::string role;
  std::string content;
  bool has_content = true;
  Json extra = Json::object();

  bool operator==(const Message&) const = default;
};

using Messages = std::vector<Message>;

/// Reads a list of messages: role system, developer, user, assistant or tool; content a string, null, or a
/// list of
/// {"type": "text"} parts, which are joined. Anything else throws kInvalidArgument with `source` and the
/// index.
Messages parse_messages(const Json& json, std::string_view source);
/// Reads "tools" as the OpenAI API has them: null, or a list of objects. Anything else throws
/// kInvalidArgument with `source`.
Json parse_tools(const Json& json, std::string_view source);
Json messages_to_json(const Messages& messages);

}  // namespace calyrex::text
