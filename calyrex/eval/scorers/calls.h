// Function calls as models write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"

namespace calyrex::eval {

struct FunctionCall {
  std::string name;
  Json arguments = Json::object();  // always an object
};

Json calls_to_json(const std::vector<FunctionCall>& calls);

/// At most this many calls of an answer are read.
inline constexpr size_t kMaxCalls = 256;

/// The calls of an answer, in order; none when it makes none. Read are, in this order:
///  1. what follows markers (<tool_call>, <functioncall>, [TOOL_CALLS], <|python_tag|>, <function=NAME>),
///  2. an answer, or a code fence in it, that is JSON calls: one, several in a row, a list of them,
///  3. an answer, or a code fence in it, that is calls as Python writes them: f(a=1), [f(a=1), g(b="x")],
///  4. JSON calls within prose.
/// A JSON call is {"name", "arguments" or "parameters"}, bare or as "function" of an object or in a list
/// "tool_calls"; arguments may be an object or its text; Python's quotes do too. Any bytes are allowed; time
/// is linear in them.
std::vector<FunctionCall> parse_calls(std::string_view answer);

}  // namespace calyrex::eval
