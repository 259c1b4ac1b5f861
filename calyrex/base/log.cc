#include "calyrex/base/log.h"

#include <cstdio>
#include <memory>
#include <mutex>
#include <set>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

namespace calyrex {
namespace {

/// The progress text on the last line of the terminal; guarded by the sink's mutex.
std::string& progress_text() {
  static std::string text;
  return text;
}

std::mutex& terminal_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// Writes to stderr, keeping the progress line below what is logged.
class TerminalSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::lock_guard lock(terminal_mutex());
    if (!progress_text().empty()) std::fputs("\r\033[K", stderr);
    std::fwrite(line.data(), 1, line.size(), stderr);
    if (!progress_text().empty()) std::fputs(progress_text().c_str(), stderr);
    std::fflush(stderr);
  }
  void flush_() override { std::fflush(stderr); }
};

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto created = std::make_shared<spdlog::logger>("calyrex", std::make_shared<TerminalSink>());
    created->set_pattern("%^%l%$: %v");
    return created;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

void log_line(LogLevel level, std::string_view text) {
  logger().log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

void log_line_once(LogLevel level, const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> seen;
  {
    const std::lock_guard lock(mutex);
    if (!seen.insert(text).second) return;
  }
  log_line(level, text);
}

ProgressLine::ProgressLine() : terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  const std::lock_guard lock(terminal_mutex());
  if (terminal_ && !progress_text().empty()) {
    std::fputs("\n", stderr);
    progress_text().clear();
  }
}

void ProgressLine::show(const std::string& text) {
  if (!terminal_) return;
  const std::lock_guard lock(terminal_mutex());
  progress_text() = text;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

std::string format_duration(double seconds) {
  if (!(seconds >= 0.0) || seconds > 1e9) return "-:--";
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace calyrex
