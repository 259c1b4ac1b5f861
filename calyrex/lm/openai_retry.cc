#include "calyrex/lm/openai_retry.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include <time.h>

namespace calyrex::lm {
namespace {

/// Longer waits are nonsense; also keeps sums of seconds from wrapping.
constexpr int64_t kMaxSeconds = 10 * 365 * 86400LL;

std::optional<std::time_t> parse_http_date(const std::string& text) {
  // The preferred format, RFC 850's, and asctime's.
  for (const char* format :
       {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"}) {
    std::tm time{};
    const char* end = ::strptime(text.c_str(), format, &time);
    if (end != nullptr && *end == '\0') return ::timegm(&time);
  }
  return std::nullopt;
}

}  // namespace

bool is_retryable_status(int64_t status) {
  return status == 408 || status == 409 || status == 425 || status == 429 || (status >= 500 && status != 501);
}

std::chrono::milliseconds backoff_wait(const RetryOptions& options, int failed_attempts,
                                       RandomStream& random) {
  const double doubled = static_cast<double>(options.first_wait.count()) *
                         std::ldexp(1.0, std::clamp(failed_attempts - 1, 0, 40));
  const double longest = std::min(doubled, static_cast<double>(options.max_wait.count()));
  return std::chrono::milliseconds(static_cast<int64_t>(longest * (0.5 + 0.5 * random.uniform())));
}

std::optional<std::chrono::seconds> parse_retry_after(std::string_view value, std::time_t now) {
  while (value.starts_with(' ')) value.remove_prefix(1);
  while (value.ends_with(' ')) value.remove_suffix(1);
  if (value.empty() || value.size() > 64) return std::nullopt;
  if (std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    int64_t seconds = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
    return std::chrono::seconds(error == std::errc() ? std::min(seconds, kMaxSeconds) : kMaxSeconds);
  }
  const std::optional<std::time_t> date = parse_http_date(std::string(value));
  if (!date) return std::nullopt;
  return std::chrono::seconds(std::clamp<int64_t>(*date - now, 0, kMaxSeconds));
}

}  // namespace calyrex::lm
