// Small helpers on UTF-8 text.
#pragma once

#include <cstddef>
#include <string_view>

namespace calyrex::text {

/// Whether the bytes are well-formed UTF-8 (no overlong forms, surrogates or values beyond U+10FFFF).
bool is_utf8(std::string_view bytes);

/// Text without the white space at its start or end, as Python's str.lstrip and str.rstrip cut it.
std::string_view trim_start(std::string_view text);
std::string_view trim_end(std::string_view text);

/// Length of the longest common prefix.
size_t common_prefix(std::string_view a, std::string_view b);

}  // namespace calyrex::text
