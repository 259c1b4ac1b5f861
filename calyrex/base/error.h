// Errors: one exception type for users' mistakes, files and resources, and one check for our own bugs.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

namespace calyrex {

enum class ErrorCode {
  kGateFailed,       // a threshold the user asked for was not met
  kInvalidArgument,  // usage, configuration, malformed request
  kNotFound,         // no such file, model, adapter, task
  kIo,               // disk full, permission, short write
  kCorruptData,      // a file that is damaged, or belongs to another model
  kUnsupported,      // well-formed, but asks for something this program lacks
  kOutOfMemory,
  kResourceExhausted,  // a queue, cache or limit is full; try again later
  kCancelled,          // Ctrl-C, SIGTERM, a client that went away
  kUnavailable,        // an endpoint or judge that does not answer
  kInternal,           // a bug of ours
};

/// Process exit code of an error (documented in README): 1 gate, 2 usage, 3 not found, 4 corrupt, 5
/// unsupported, 6 endpoint, 70 internal and I/O, 130 interrupted.
int exit_code(ErrorCode code);

/// HTTP status of an error.
int http_status(ErrorCode code);

/// Snake-case name, as it appears in JSON ("invalid_argument").
std::string_view error_code_name(ErrorCode code);

/// What every public function throws for users' mistakes, files and resources. `what()` is one line: the
/// context chain, outermost first, then the message. Thread-compatible; copyable across threads.
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message);

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  /// Adds an outer context, e.g. "loading adapter runs/demo".
  void add_context(std::string context);
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  ErrorCode code_;
  std::string message_;
  std::vector<std::string> context_;  // innermost first
  std::string what_;
};

/// Throws Error with a formatted message.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Runs `function`, adding `context` to any Error that leaves it.
template <typename Function>
decltype(auto) with_context(std::string_view context, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (Error& error) {
    error.add_context(std::string(context));
    throw;
  }
}

[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& message);

}  // namespace calyrex

/// A condition that only a bug of ours can break; throws Error{kInternal} with the place. Never for user
/// input.
#define CALYREX_CHECK(condition, ...)                                                         \
  do {                                                                                        \
    if (!(condition)) [[unlikely]]                                                            \
      ::calyrex::check_failed(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
