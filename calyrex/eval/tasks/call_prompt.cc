#include "calyrex/eval/tasks/call_prompt.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "calyrex/eval/core/form.h"

namespace calyrex::eval {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kSchemaTypes = {
    {{"dict", "object"}, {"float", "number"}, {"tuple", "array"}, {"any", "string"}}};

/// Type names at every depth; the values of "properties" are schemas, whatever their keys are.
Json to_json_schema(const Json& schema) {
  if (!schema.is_object()) return schema;
  Json result = Json::object();
  for (const auto& entry : schema.items()) {
    Json value = entry.value();
    if (entry.key() == "type" && value.is_string()) {
      for (const auto& [from, to] : kSchemaTypes) {
        if (value == from) value = to;
      }
    } else if (entry.key() == "properties" && value.is_object()) {
      for (auto& property : value) property = to_json_schema(property);
    } else if (entry.key() == "items") {
      value = to_json_schema(value);
    }
    result[entry.key()] = std::move(value);
  }
  return result;
}

Json to_function(const Json& function) {
  Json result = function;
  if (result.contains("parameters")) result["parameters"] = to_json_schema(result["parameters"]);
  return result;
}

std::string instruction(const Json& functions) {
  std::string lines;
  for (const Json& function : functions) lines += to_json_line(to_function(function)) + "\n";
  return fmt::format(
      "You can call functions. Each line describes one:\n{}\nWhen functions can help, answer with nothing "
      "but "
      "one line for each call:\n<tool_call>{{\"name\": \"FUNCTION\", \"arguments\": {{\"PARAMETER\": "
      "VALUE}}}}</tool_call>\nWhen no function fits, or a required value is not known, answer in words and "
      "call "
      "nothing.",
      lines);
}

text::Message& message_of(text::Messages& chat, std::string_view role) {
  const auto found =
      std::find_if(chat.begin(), chat.end(), [&](const auto& message) { return message.role == role; });
  if (found != chat.end()) return *found;
  return *chat.insert(chat.begin(), {.role = std::string(role)});
}

std::string call_text(const FunctionCall& call) {
  return to_json_line({{"name", call.name}, {"arguments", call.arguments}});
}

}  // namespace

Json to_tools(const Json& functions) {
  Json tools = Json::array();
  for (const Json& function : functions)
    tools.push_back({{"type", "function"}, {"function", to_function(function)}});
  return tools;
}

GenerateAsk call_ask(const LoadOptions& options, const Json& functions, text::Messages chat) {
  GenerateAsk ask{.max_new_tokens = 512};
  if (options.form == Form::kTools) {
    ask.tools = to_tools(functions);
    text::Message& system = message_of(chat, "system");
    if (system.content.empty()) system.content = kNeutralSystem;
  } else if (options.form == Form::kSystem) {
    text::Message& system = message_of(chat, "system");
    system.content += (system.content.empty() ? "" : "\n\n") + instruction(functions);
  } else {
    text::Message& user = message_of(chat, "user");
    user.content = fmt::format("{}\n\n{}", instruction(functions), user.content);
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
  return {.role = "assistant", .content = fmt::format("<tool_call>{}</tool_call>", call_text(call))};
}

text::Message result_message(const LoadOptions& options, const std::string& result) {
  if (options.form == Form::kTools) return {.role = "tool", .content = result};
  return {.role = "user", .content = fmt::format("<tool_response>{}</tool_response>", result)};
}

}  // namespace calyrex::eval
