// A configuration file as a tree with places: what YAML and JSON files and key=value overrides become before
// the field visitor (fields.h) reads them into structs.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calyrex/base/json.h"

namespace calyrex {

class ConfigNode {
 public:
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string scalar;   // text of a scalar
  bool quoted = false;  // "1" and '1' are strings, 1 is not
  std::vector<ConfigNode> items;
  std::vector<std::pair<std::string, ConfigNode>> entries;
  std::string place;  // "configs/a.yaml:12:3", "command line", "adapter_config.json"

  const ConfigNode* find(std::string_view key) const;
};

/// Reads a YAML file (at most 1 MiB). Duplicate keys, anchors that expand too far and deep nesting are errors
/// with file:line:column.
ConfigNode read_yaml_file(const std::filesystem::path& path);
ConfigNode parse_yaml(std::string_view text, std::string_view source);

/// The same tree from parsed JSON; `source` becomes every place.
ConfigNode config_from_json(const Json& value, std::string_view source);

/// Plain JSON of the tree: unquoted scalars become null, booleans and numbers where they read as such.
Json config_to_json(const ConfigNode& node);

/// Applies `train.epochs=2` to the tree: the key is a dotted path, the value is YAML. Missing maps are
/// created; whether the key exists is decided by the reader.
void apply_override(ConfigNode& root, std::string_view assignment);

}  // namespace calyrex
