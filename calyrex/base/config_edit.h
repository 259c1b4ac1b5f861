// Changing and comparing configurations in the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/config_node.h"

namespace calyrex {

/// Puts a value at a dotted key, as apply_override() does; the value keeps its places, maps that are missing
/// take its place.
void set_entry(ConfigNode& root, std::string_view dotted_key, ConfigNode value);

/// The dotted keys in which two configurations differ, but for `output`: "train.seed: 0 -> 1".
std::vector<std::string> config_differences(const Json& before, const Json& after);

}  // namespace calyrex
