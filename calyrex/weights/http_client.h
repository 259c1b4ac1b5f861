// HTTP over libcurl, which is loaded when the first request is made: it brings thirty shared libraries that
// no other command should wait for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace calyrex::weights {

struct HttpRequest {
  std::string url;           // http or https
  std::string bearer_token;  // empty: none; never sent to another host after a redirect
  uint64_t first_byte = 0;   // asks for the rest from here (Range) when not 0
  int64_t connect_timeout_ms = 20'000;
  int64_t silent_seconds = 60;   // no byte for so long ends the request
  int64_t total_timeout_ms = 0;  // 0 = none
  /// Asked about once a second while the request runs; true ends it with kCancelled.
  std::function<bool()> cancelled = {};
};

struct HttpResponse {
  int64_t status = 0;
  std::map<std::string, std::string> headers;  // lower-case names; of redirects too, the last value counts
};

using HttpBody = std::function<void(const HttpResponse&, std::span<const std::byte>)>;

/// Follows redirects and calls `body` with each piece of the final response's body. An exception of `body`
/// ends the request and is passed on. Throws kUnavailable when the host cannot be reached, is silent for too
/// long or breaks off; statuses such as 404 are returned.
HttpResponse http_get(const HttpRequest& request, const HttpBody& body);

/// Sends `json` as application/json; likewise, but a redirect is returned, as it would lose the body.
HttpResponse http_post(const HttpRequest& request, std::string_view json, const HttpBody& body);

}  // namespace calyrex::weights
