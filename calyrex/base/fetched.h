// Where the things lie that ./run fetches.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace calyrex {

/// Path of something in .deps: what the environment variable names if it is set, else `.deps/<relative>` in a
/// folder above the program or the current one. kNotFound when there is none: "WHAT (...) is not there; ./run
/// build fetches it, or set VARIABLE".
std::filesystem::path find_fetched(const std::string& relative, const char* variable, std::string_view what);

}  // namespace calyrex
