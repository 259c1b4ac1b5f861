// Files of lines that a program which was stopped at any moment goes on with.
#pragma once

#include <filesystem>
#include <functional>

#include "calyrex/base/json.h"

namespace calyrex::eval {

/// Calls `line(number, value)` for each line, having cut off a last one that was half written. No file: no
/// line. A line that is no JSON object throws kCorruptData with file:line and a remedy.
void read_appended_lines(const std::filesystem::path& path, const std::function<void(int64_t, Json)>& line);

}  // namespace calyrex::eval
