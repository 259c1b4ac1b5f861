// Names from files, made fit for one line of an error message.
#pragma once

#include <string>
#include <string_view>

namespace calyrex::weights {

/// `text` cut to 100 bytes, with everything but printable ASCII replaced by '?'. Text from a damaged file may
/// hold line breaks, terminal codes or half characters.
std::string printable(std::string_view text);

}  // namespace calyrex::weights
