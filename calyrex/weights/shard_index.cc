#include "calyrex/weights/shard_index.h"

#include <algorithm>

#include "calyrex/base/error.h"
#include "calyrex/base/json.h"
#include "calyrex/weights/printable.h"

namespace calyrex::weights {

std::map<std::string, std::vector<std::string>> read_shard_index(const std::filesystem::path& path) {
  const Json index = read_json_file(path);
  const Json* map = index.is_object() && index.contains("weight_map") ? &index["weight_map"] : nullptr;
  if (map == nullptr || !map->is_object() || map->empty()) {
    fail(ErrorCode::kCorruptData, "{}: \"weight_map\" is missing or empty", path.string());
  }
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, shard] : map->items()) {
    const std::string file = shard.is_string() ? shard.get<std::string>() : std::string();
    if (!file.ends_with(".safetensors") || printable(file) != file ||
        file.find_first_of("/\\") != std::string::npos) {
      fail(ErrorCode::kCorruptData, "{}: tensor {}: {} is no name of a safetensors file", path.string(),
           printable(tensor), printable(to_json_line(shard)));
    }
    shards[file].push_back(tensor);
  }
  for (auto& [file, tensors] : shards) std::sort(tensors.begin(), tensors.end());
  return shards;
}

}  // namespace calyrex::weights
