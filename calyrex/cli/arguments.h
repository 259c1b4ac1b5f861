// Checks of what is typed on the command line, before CLI11 converts it.
#pragma once

#include <charconv>
#include <concepts>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

namespace calyrex::cli {

/// Refuses what is below `least` or does not fit a T: CLI11 wraps "-1" round, cuts off what is too large, and
/// writes out the bounds of its own checks in 309 digits.
template <std::integral T>
CLI::Validator whole_number(T least = std::numeric_limits<T>::min()) {
  return CLI::Validator(
      [least](const std::string& text) -> std::string {
        T value{};
        const char* end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, value);
        if (parsed.ec == std::errc() && parsed.ptr == end && value >= least) return {};
        return fmt::format("'{}' is no whole number from {} to {}", text, least,
                           std::numeric_limits<T>::max());
      },
      "");
}

/// Refuses an empty word, which is most often a shell variable that is not set.
inline CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& text) { return std::string(text.empty() ? "an empty word is no value" : ""); },
      "");
}

/// The file that a path argument names; "-" is `stream`.
inline std::filesystem::path stream_path(const std::string& argument, const char* stream) {
  return argument == "-" ? stream : argument;
}

}  // namespace calyrex::cli
