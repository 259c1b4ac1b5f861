// JSON from outside, bounded and strict; numbers and order are kept as written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace calyrex {

/// Objects keep the order of the file: configurations and templates depend on it.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  size_t max_bytes = size_t{64} << 20;
  int max_depth = 128;
  size_t max_keys = 16384;  // in one object: looking up a key takes time in proportion to their number
};

/// Parses one JSON document. Rejects duplicate keys, invalid UTF-8, deep nesting and trailing text with
/// kCorruptData, naming `source` and the place.
Json parse_json(std::string_view text, std::string_view source, const JsonLimits& limits = {});

Json read_json_file(const std::filesystem::path& path, const JsonLimits& limits = {});

/// Calls `row(line_number, value)` for each non-blank line of a JSONL file; errors carry file:line and are
/// kInvalidArgument, as data rows are the user's.
void for_each_json_line(const std::filesystem::path& path, const std::function<void(int64_t, Json)>& row);

/// One line, UTF-8 as it is (no \u escapes); invalid UTF-8 is replaced, never thrown on.
std::string to_json_line(const Json& value);

/// Indented by two, with a final newline; for files people read.
std::string to_json_text(const Json& value);

}  // namespace calyrex
