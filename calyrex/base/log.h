// Log lines to stderr and one progress line. The logging library stays behind log.cc.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace calyrex {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void set_log_level(LogLevel level);
void log_line(LogLevel level, std::string_view text);

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}

/// A line that is worth saying once in a process, however often its cause is met.
void log_line_once(LogLevel level, const std::string& text);
template <typename... Args>
void log_warning_once(fmt::format_string<Args...> format, Args&&... args) {
  log_line_once(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}

/// A line on stderr that rewrites itself, shown only on a terminal. Log lines written meanwhile go above it.
/// One at a time; not thread-safe.
class ProgressLine {
 public:
  ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  /// Leaves the last text standing.
  ~ProgressLine();

  void show(const std::string& text);

 private:
  bool terminal_;
};

/// "1:05", "2:03:09"; a negative time is "-:--".
std::string format_duration(double seconds);

}  // namespace calyrex
