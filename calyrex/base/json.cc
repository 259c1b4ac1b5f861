#include "calyrex/base/json.h"

#include <algorithm>
#include <set>
#include <vector>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"

namespace calyrex {
namespace {

constexpr size_t kMaxLineBytes = size_t{64} << 20;

/// The library's message without its tag. It quotes what was read last, which may be megabytes of any bytes.
std::string parse_fault(std::string_view what) {
  constexpr size_t kStart = 160, kEnd = 80;
  const size_t tag = what.find("] ");
  if (tag != std::string_view::npos) what.remove_prefix(tag + 2);
  std::string text(what);
  if (text.size() > kStart + kEnd) text.replace(kStart, text.size() - kStart - kEnd, " ... ");
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

Json parse_or_fail(std::string_view text, std::string_view source, const JsonLimits& limits, ErrorCode code) {
  if (text.size() > limits.max_bytes) {
    fail(code, "{}: JSON of {} bytes; at most {} are read", source, text.size(), limits.max_bytes);
  }
  std::vector<std::set<std::string>> keys;
  const auto callback = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > limits.max_depth) fail(code, "{}: JSON nested deeper than {}", source, limits.max_depth);
    switch (event) {
      case Json::parse_event_t::object_start:
        keys.emplace_back();
        break;
      case Json::parse_event_t::object_end:
        keys.pop_back();
        break;
      case Json::parse_event_t::key:
        if (!keys.back().insert(parsed.get<std::string>()).second) {
          fail(code, "{}: key \"{}\" appears twice in one object", source, parsed.get<std::string>());
        }
        if (keys.back().size() > limits.max_keys) {
          fail(code, "{}: more than {} keys in one object", source, limits.max_keys);
        }
        break;
      default:
        break;
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), callback);
  } catch (const Json::exception& error) {
    fail(code, "{}: not valid JSON: {}", source, parse_fault(error.what()));
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view source, const JsonLimits& limits) {
  return parse_or_fail(text, source, limits, ErrorCode::kCorruptData);
}

Json read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  return parse_json(read_file(path, limits.max_bytes), path.string(), limits);
}

void for_each_json_line(const std::filesystem::path& path, const std::function<void(int64_t, Json)>& row) {
  for_each_line(path, kMaxLineBytes, [&](int64_t number, std::string_view text) {
    if (text.find_first_not_of(" \t") == std::string_view::npos) return;
    const std::string source = fmt::format("{}:{}", path.string(), number);
    row(number, parse_or_fail(text, source, {}, ErrorCode::kInvalidArgument));
  });
}

std::string to_json_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_json_text(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace calyrex
