#include "calyrex/base/error.h"

#include <array>
#include <iterator>

namespace calyrex {
namespace {

struct CodeRow {
  ErrorCode code;
  std::string_view name;
  int exit_code;
  int http_status;
};

constexpr std::array kCodes = {
    CodeRow{ErrorCode::kGateFailed, "gate_failed", 1, 500},
    CodeRow{ErrorCode::kInvalidArgument, "invalid_argument", 2, 400},
    CodeRow{ErrorCode::kNotFound, "not_found", 3, 404},
    CodeRow{ErrorCode::kIo, "io", 70, 500},
    CodeRow{ErrorCode::kCorruptData, "corrupt_data", 4, 500},
    CodeRow{ErrorCode::kUnsupported, "unsupported", 5, 501},
    CodeRow{ErrorCode::kOutOfMemory, "out_of_memory", 70, 503},
    CodeRow{ErrorCode::kResourceExhausted, "resource_exhausted", 70, 429},
    CodeRow{ErrorCode::kCancelled, "cancelled", 130, 499},
    CodeRow{ErrorCode::kUnavailable, "unavailable", 6, 503},
    CodeRow{ErrorCode::kInternal, "internal", 70, 500},
};

const CodeRow& row(ErrorCode code) {
  for (const CodeRow& candidate : kCodes) {
    if (candidate.code == code) return candidate;
  }
  return kCodes.back();
}

}  // namespace

int exit_code(ErrorCode code) { return row(code).exit_code; }
int http_status(ErrorCode code) { return row(code).http_status; }
std::string_view error_code_name(ErrorCode code) { return row(code).name; }

Error::Error(ErrorCode code, std::string message)
    : code_(code), message_(std::move(message)), what_(message_) {}

void Error::add_context(std::string context) {
  what_ = context + ": " + what_;
  context_.push_back(std::move(context));
}

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  std::string_view path(file);
  const size_t root = path.rfind("calyrex/");
  if (root != std::string_view::npos) path = path.substr(root);
  throw Error(ErrorCode::kInternal,
              fmt::format("internal error at {}:{}: {} does not hold{}{}; please report this", path, line,
                          condition, message.empty() ? "" : ": ", message));
}

}  // namespace calyrex
