// model.safetensors.index.json: which file holds which tensor.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace calyrex::weights {

/// Shard file -> its tensors, sorted. Shard names come from a file, so only plain file names are let through.
/// Throws kCorruptData.
std::map<std::string, std::vector<std::string>> read_shard_index(const std::filesystem::path& path);

}  // namespace calyrex::weights
