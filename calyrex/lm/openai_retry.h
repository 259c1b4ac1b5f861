// When a client asks an endpoint again, and how long it waits before.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string_view>

#include "calyrex/base/random.h"

namespace calyrex::lm {

/// Exponential back-off with jitter: the n-th wait is drawn from [d/2, d], d = first_wait * 2^n, at most
/// max_wait.
struct RetryOptions {
  int max_attempts = 6;  // requests in all
  std::chrono::milliseconds first_wait{500};
  std::chrono::milliseconds max_wait{30'000};
  std::chrono::milliseconds max_retry_after{120'000};  // a longer Retry-After is cut to this
};

/// Statuses that may pass: 408, 409, 425, 429 and every 5xx but 501.
bool is_retryable_status(int64_t status);

/// Wait before attempt `failed_attempts` + 1 (failed_attempts >= 1).
std::chrono::milliseconds backoff_wait(const RetryOptions& options, int failed_attempts,
                                       RandomStream& random);

/// Value of a Retry-After header (RFC 9110, section 10.2.3): seconds, or an HTTP date in any of its three
/// formats (a past one is 0). Anything else: none.
std::optional<std::chrono::seconds> parse_retry_after(std::string_view value, std::time_t now);

}  // namespace calyrex::lm
