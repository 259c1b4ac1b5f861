// Calls in Python's syntax.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "calyrex/eval/scorers/calls.h"
#include "calyrex/eval/scorers/json_value.h"

namespace calyrex::eval {

/// The calls when the whole text is calls (f(a=1), one or several, in a list or a line each); nothing when it
/// is anything else or longer than 64 KiB. Values are Python literals (tuples and sets become lists) or
/// names, which become their text; positional arguments are named "0", "1", ...
std::optional<std::vector<FunctionCall>> parse_python_calls(std::string_view text);

/// The literal that begins at text[at], or nothing. Looks at no more than 64 KiB.
std::optional<JsonPiece> python_value_at(std::string_view text, size_t at);

}  // namespace calyrex::eval
