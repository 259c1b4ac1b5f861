// What Python's json.loads accepts.
#pragma once

#include "calyrex/eval/ifeval/python_text.h"

namespace calyrex::ifeval {

/// Whether json.loads(text) would succeed: RFC 8259 with NaN, Infinity and -Infinity, any value at the top,
/// repeated keys, lone surrogates in escapes. Linear, and no nesting is too deep.
bool is_python_json(TextView text);

}  // namespace calyrex::ifeval
