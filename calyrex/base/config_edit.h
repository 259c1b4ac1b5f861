// Changing a configuration tree from the program.
#pragma once

#include <string_view>

#include "calyrex/base/config_node.h"

namespace calyrex {

/// Puts a value at a dotted key, as apply_override() does; the value keeps its places, maps that are missing
/// take its place.
void set_entry(ConfigNode& root, std::string_view dotted_key, ConfigNode value);

}  // namespace calyrex
