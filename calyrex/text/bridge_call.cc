#include "calyrex/text/bridge_call.h"

#include "calyrex/base/error.h"

namespace calyrex::text {
namespace {

ErrorCode error_code(CalyrexStatus status) {
  switch (status) {
    case CALYREX_CORRUPT:
      return ErrorCode::kCorruptData;
    case CALYREX_UNSUPPORTED:
      return ErrorCode::kUnsupported;
    case CALYREX_INTERNAL:
      return ErrorCode::kInternal;
    default:  // a template's limits and refusals are for the user who chose template or messages to mend
      return ErrorCode::kInvalidArgument;
  }
}

}  // namespace

void check_bridge(CalyrexStatus status, const BridgeBytes& message, std::string_view what) {
  if (status == CALYREX_OK) return;
  fail(error_code(status), "{}: {}", what, message.view());
}

}  // namespace calyrex::text
