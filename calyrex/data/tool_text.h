// Function calls in plain text, for models whose template has no tools: one wording for evaluation and
// training data.
#pragma once

#include <string>

#include "calyrex/base/json.h"

namespace calyrex::data {

/// Function descriptions {"name", "description", "parameters"} as the `tools` of a chat template, with JSON
/// Schema's type names (dict, float, tuple and any are BFCL's).
Json to_template_tools(const Json& functions);

/// What a system message says of the functions and of the format of calls.
std::string tool_instruction(const Json& functions);

/// <tool_call>{"name": ..., "arguments": ...}</tool_call>
std::string tool_call_text(const std::string& name, const Json& arguments);

/// <tool_response>...</tool_response>, which stands in a user message.
std::string tool_response_text(const std::string& result);

}  // namespace calyrex::data
