// System messages for a share of the rows of a mixture.
#pragma once

#include <functional>
#include <vector>

#include "calyrex/base/random.h"
#include "calyrex/data/layout.h"
#include "calyrex/data/mix.h"

namespace calyrex::data {

struct SystemMessageChecks {
  std::function<bool(const ChatRow&)> fits;        // whether a changed row keeps to the limits
  std::function<bool(const std::string&)> admits;  // whether a text may be used
};

/// Gives rows a system message, drawn by `random`, until the share is reached. Throws kInvalidArgument when
/// no text may be used.
MixSystemCounts add_system_messages(const MixSystem& config, std::vector<LaidOutRow>& rows,
                                    RandomStream& random, const SystemMessageChecks& checks);

}  // namespace calyrex::data
