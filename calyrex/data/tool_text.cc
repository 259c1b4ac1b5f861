#include "calyrex/data/tool_text.h"

#include <array>
#include <utility>

#include <fmt/format.h>

namespace calyrex::data {
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

Json to_json_schema_functions(const Json& functions) {
  Json result = functions;
  for (Json& function : result) {
    if (function.contains("parameters")) function["parameters"] = to_json_schema(function["parameters"]);
  }
  return result;
}

}  // namespace

Json to_template_tools(const Json& functions) {
  Json tools = Json::array();
  for (const Json& function : to_json_schema_functions(functions))
    tools.push_back({{"type", "function"}, {"function", function}});
  return tools;
}

std::string tool_instruction(const Json& functions) {
  std::string lines;
  for (const Json& function : to_json_schema_functions(functions)) lines += to_json_line(function) + "\n";
  return fmt::format(
      "You can call functions. Each line describes one:\n{}\nWhen functions can help, answer with nothing "
      "but "
      "one line for each call:\n<tool_call>{{\"name\": \"FUNCTION\", \"arguments\": {{\"PARAMETER\": "
      "VALUE}}}}</tool_call>\nWhen no function fits, or a required value is not known, answer in words and "
      "call "
      "nothing.",
      lines);
}

std::string tool_call_text(const std::string& name, const Json& arguments) {
  const Json call = {{"name", name}, {"arguments", arguments}};
  return fmt::format("<tool_call>{}</tool_call>", to_json_line(call));
}

std::string tool_response_text(const std::string& result) {
  return fmt::format("<tool_response>{}</tool_response>", result);
}

}  // namespace calyrex::data
