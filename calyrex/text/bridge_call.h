// The C++ side of the Rust bridge: owned results, and statuses turned into calyrex::Error.
#pragma once

#include <string>
#include <string_view>

#include "calyrex/text/bridge/calyrex_bridge.h"

namespace calyrex::text {

/// Bytes that the bridge allocated; freed with this object.
class BridgeBytes {
 public:
  BridgeBytes() = default;
  explicit BridgeBytes(CalyrexBytes bytes) : bytes_(bytes) {}
  BridgeBytes(const BridgeBytes&) = delete;
  BridgeBytes& operator=(const BridgeBytes&) = delete;
  ~BridgeBytes() { calyrex_bytes_free(bytes_); }

  CalyrexBytes* out() { return &bytes_; }
  std::string_view view() const { return {reinterpret_cast<const char*>(bytes_.data), bytes_.size}; }

 private:
  CalyrexBytes bytes_ = {nullptr, 0, 0};
};

inline CalyrexView bridge_view(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// Throws the Error of a failed status: "<what>: <message>". Returns for CALYREX_OK.
void check_bridge(CalyrexStatus status, const BridgeBytes& message, std::string_view what);

}  // namespace calyrex::text
