// System messages for a share of the rows of a mixture.
#pragma once

#include <functional>
#include <vector>

#include "calyrex/base/random.h"
#include "calyrex/data/layout.h"
#include "calyrex/data/mix.h"

namespace calyrex::data {

/// Gives rows a system message, drawn by `random`, until the share is reached. `fits` says whether a changed
/// row keeps to the limits.
MixSystemCounts add_system_messages(const MixSystem& config, std::vector<LaidOutRow>& rows,
                                    RandomStream& random, const std::function<bool(const ChatRow&)>& fits);

}  // namespace calyrex::data
