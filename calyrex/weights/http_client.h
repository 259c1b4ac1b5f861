// HTTP GET over libcurl, which is loaded when the first request is made: it brings thirty shared libraries
// that no other command should wait for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

namespace calyrex::weights {

struct HttpRequest {
  std::string url;           // http or https
  std::string bearer_token;  // empty: none; never sent to another host after a redirect
  uint64_t first_byte = 0;   // asks for the rest from here (Range) when not 0
};

struct HttpResponse {
  int64_t status = 0;
  std::map<std::string, std::string> headers;  // lower-case names; of redirects too, the last value counts
};

/// Follows redirects and calls `body` with each piece of the final response's body. An exception of `body`
/// ends the request and is passed on. Throws kUnavailable when the host cannot be reached, is silent for a
/// minute or breaks off; statuses such as 404 are returned.
HttpResponse http_get(const HttpRequest& request,
                      const std::function<void(const HttpResponse&, std::span<const std::byte>)>& body);

}  // namespace calyrex::weights
