#include "calyrex/eval/tasks/call_prompt.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "calyrex/data/tool_text.h"
#include "calyrex/eval/core/form.h"

namespace calyrex::eval {
namespace {

text::Message& message_of(text::Messages& chat, std::string_view role) {
  const auto found =
      std::find_if(chat.begin(), chat.end(), [&](const auto& message) { return message.role == role; });
  if (found != chat.end()) return *found;
  return *chat.insert(chat.begin(), {.role = std::string(role)});
}

}  // namespace

GenerateAsk call_ask(const LoadOptions& options, const Json& functions, text::Messages chat) {
  GenerateAsk ask{.max_new_tokens = 512};
  if (options.form == Form::kTools) {
    ask.tools = data::to_template_tools(functions);
    text::Message& system = message_of(chat, "system");
    if (system.content.empty()) system.content = kNeutralSystem;
  } else if (options.form == Form::kSystem) {
    text::Message& system = message_of(chat, "system");
    system.content += (system.content.empty() ? "" : "\n\n") + data::tool_instruction(functions);
  } else {
    text::Message& user = message_of(chat, "user");
    user.content = fmt::format("{}\n\n{}", data::tool_instruction(functions), user.content);
  }
  ask.messages = std::move(chat);
  return ask;
}

text::Message call_message(const LoadOptions& options, const FunctionCall& call) {
  if (options.form == Form::kTools) {
    const Json function = {{"name", call.name}, {"arguments", call.arguments}};
    return {.role = "assistant",
            .has_content = false,
            .extra = {{"tool_calls", Json::array({{{"type", "function"}, {"function", function}}})}}};
  }
  return {.role = "assistant", .content = data::tool_call_text(call.name, call.arguments)};
}

text::Message result_message(const LoadOptions& options, const std::string& result) {
  if (options.form == Form::kTools) return {.role = "tool", .content = result};
  return {.role = "user", .content = data::tool_response_text(result)};
}

}  // namespace calyrex::eval
