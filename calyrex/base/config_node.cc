#include "calyrex/base/config_node.h"

#include <charconv>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "calyrex/base/config_edit.h"
#include "calyrex/base/error.h"
#include "calyrex/base/file.h"

namespace calyrex {
namespace {

constexpr size_t kMaxYamlBytes = size_t{1} << 20;
constexpr int kMaxDepth = 32;
constexpr int64_t kMaxNodes = 100'000;

struct Converter {
  std::string_view source;
  int64_t nodes = 0;

  std::string place(const YAML::Node& node) const {
    const YAML::Mark mark = node.Mark();
    return mark.is_null() ? std::string(source)
                          : fmt::format("{}:{}:{}", source, mark.line + 1, mark.column + 1);
  }

  ConfigNode convert(const YAML::Node& node, int depth) {
    ConfigNode result;
    result.place = place(node);
    if (depth > kMaxDepth) {
      fail(ErrorCode::kInvalidArgument, "{}: nested deeper than {}", result.place, kMaxDepth);
    }
    if (++nodes > kMaxNodes) {
      fail(ErrorCode::kInvalidArgument, "{}: more than {} values", result.place, kMaxNodes);
    }
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        result.kind = ConfigNode::Kind::kScalar;
        result.scalar = node.Scalar();
        result.quoted = node.Tag() == "!";
        break;
      case YAML::NodeType::Sequence:
        result.kind = ConfigNode::Kind::kList;
        for (const YAML::Node& item : node) result.items.push_back(convert(item, depth + 1));
        break;
      case YAML::NodeType::Map:
        convert_map(node, depth, result);
        break;
      default:
        break;
    }
    return result;
  }

  void convert_map(const YAML::Node& node, int depth, ConfigNode& result) {
    result.kind = ConfigNode::Kind::kMap;
    std::set<std::string> seen;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        fail(ErrorCode::kInvalidArgument, "{}: a key must be a plain word", place(entry.first));
      }
      const std::string& key = entry.first.Scalar();
      if (!seen.insert(key).second) {
        fail(ErrorCode::kInvalidArgument, "{}: key '{}' appears twice", place(entry.first), key);
      }
      ConfigNode value = convert(entry.second, depth + 1);
      value.place = place(entry.first);
      result.entries.emplace_back(key, std::move(value));
    }
  }
};

Json scalar_to_json(const ConfigNode& node) {
  const std::string& text = node.scalar;
  if (node.quoted) return text;
  if (text == "null" || text == "~" || text.empty()) return nullptr;
  if (text == "true") return true;
  if (text == "false") return false;
  int64_t integer = 0;
  const char* end = text.data() + text.size();
  if (const auto parsed = std::from_chars(text.data(), end, integer);
      parsed.ec == std::errc() && parsed.ptr == end) {
    return integer;
  }
  double number = 0;
  if (const auto parsed = std::from_chars(text.data(), end, number);
      parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(number)) {
    return number;
  }
  return text;
}

}  // namespace

const ConfigNode* ConfigNode::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

ConfigNode parse_yaml(std::string_view text, std::string_view source) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) {
      fail(ErrorCode::kInvalidArgument, "{}: {} documents; one is expected", source, documents.size());
    }
    Converter converter{.source = source};
    if (documents.empty()) {
      ConfigNode empty;
      empty.place = source;
      return empty;
    }
    return converter.convert(documents.front(), 0);
  } catch (const YAML::Exception& error) {
    fail(ErrorCode::kInvalidArgument, "{}:{}:{}: not valid YAML: {}", source, error.mark.line + 1,
         error.mark.column + 1, error.msg);
  }
}

ConfigNode read_yaml_file(const std::filesystem::path& path) {
  return parse_yaml(read_file(path, kMaxYamlBytes), path.string());
}

ConfigNode config_from_json(const Json& value, std::string_view source) {
  ConfigNode node;
  node.place = source;
  if (value.is_object()) {
    node.kind = ConfigNode::Kind::kMap;
    for (const auto& [key, entry] : value.items())
      node.entries.emplace_back(key, config_from_json(entry, source));
  } else if (value.is_array()) {
    node.kind = ConfigNode::Kind::kList;
    for (const Json& item : value) node.items.push_back(config_from_json(item, source));
  } else if (!value.is_null()) {
    node.kind = ConfigNode::Kind::kScalar;
    node.quoted = value.is_string();
    node.scalar = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return node;
}

Json config_to_json(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::kNull:
      return nullptr;
    case ConfigNode::Kind::kScalar:
      return scalar_to_json(node);
    case ConfigNode::Kind::kList: {
      Json list = Json::array();
      for (const ConfigNode& item : node.items) list.push_back(config_to_json(item));
      return list;
    }
    case ConfigNode::Kind::kMap: {
      Json map = Json::object();
      for (const auto& [key, value] : node.entries) map[key] = config_to_json(value);
      return map;
    }
  }
  return nullptr;
}

void apply_override(ConfigNode& root, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    fail(ErrorCode::kInvalidArgument, "'{}' is not an override; write key=value, e.g. train.epochs=2",
         assignment);
  }
  const std::string source = fmt::format("command line, {}", assignment.substr(0, equals));
  ConfigNode value = parse_yaml(assignment.substr(equals + 1), source);
  value.place = source;
  set_entry(root, assignment.substr(0, equals), std::move(value));
}

void set_entry(ConfigNode& root, std::string_view dotted_key, ConfigNode value) {
  ConfigNode* node = &root;
  while (true) {
    const size_t dot = dotted_key.find('.');
    const std::string key(dotted_key.substr(0, dot));
    if (node->kind != ConfigNode::Kind::kMap) {
      *node = ConfigNode{};
      node->kind = ConfigNode::Kind::kMap;
      node->place = value.place;
    }
    auto found = node->entries.begin();
    while (found != node->entries.end() && found->first != key) ++found;
    if (found == node->entries.end()) found = node->entries.insert(found, {key, ConfigNode{}});
    node = &found->second;
    if (dot == std::string_view::npos) break;
    dotted_key = dotted_key.substr(dot + 1);
  }
  *node = std::move(value);
}

namespace {

void flatten(const Json& value, const std::string& prefix, std::vector<std::pair<std::string, Json>>& out) {
  if (!value.is_object() || value.empty()) {
    out.emplace_back(prefix, value);
    return;
  }
  for (const auto& [name, entry] : value.items()) {
    flatten(entry, prefix.empty() ? name : fmt::format("{}.{}", prefix, name), out);
  }
}

const Json* find_leaf(const std::vector<std::pair<std::string, Json>>& leaves, const std::string& key) {
  for (const auto& [name, value] : leaves) {
    if (name == key) return &value;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> config_differences(const Json& before, const Json& after) {
  std::vector<std::pair<std::string, Json>> old_leaves, new_leaves;
  flatten(before, "", old_leaves);
  flatten(after, "", new_leaves);
  std::vector<std::string> differences;
  const auto text = [](const Json* value) {
    return value == nullptr ? std::string("absent") : to_json_line(*value);
  };
  for (const auto& [key, value] : new_leaves) {
    const Json* old_value = find_leaf(old_leaves, key);
    if (key == "output" || (old_value != nullptr && *old_value == value)) continue;
    differences.push_back(fmt::format("{}: {} -> {}", key, text(old_value), text(&value)));
  }
  for (const auto& [key, value] : old_leaves) {
    if (key != "output" && find_leaf(new_leaves, key) == nullptr) {
      differences.push_back(fmt::format("{}: {} -> absent", key, text(&value)));
    }
  }
  return differences;
}

}  // namespace calyrex
