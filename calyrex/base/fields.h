// One listing of a configuration struct's fields serves reading, writing, comparing and the documentation.
//
//   struct Example {
//     double learning_rate = 2e-4;
//     template <class Visitor>
//     void visit_fields(Visitor& visit) {
//       visit("learning_rate", learning_rate, "peak learning rate");
//     }
//   };
//   enum class Part { kContent, kMessage };
//   inline constexpr auto enum_names(Part) {
//     return std::to_array<EnumName<Part>>({{Part::kContent, "content"}, {Part::kMessage, "message"}});
//   }
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "calyrex/base/config_node.h"
#include "calyrex/base/error.h"

namespace calyrex {

template <typename Enum>
struct EnumName {
  Enum value;
  std::string_view name;
};

template <typename T>
concept NamedEnum = std::is_enum_v<T> && requires(T value) {
  enum_names(value);
};

/// Text of a named enum value.
template <NamedEnum Enum>
std::string_view to_string(Enum value) {
  for (const auto& entry : enum_names(value)) {
    if (entry.value == value) return entry.name;
  }
  return "?";
}

namespace fields_internal {

struct AnyVisitor {
  template <typename T>
  void operator()(std::string_view, T&, std::string_view) {}
};

template <typename T>
concept FieldStruct = requires(T value, AnyVisitor visitor) {
  value.visit_fields(visitor);
};

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct IsArray : std::false_type {};
template <typename T, size_t N>
struct IsArray<std::array<T, N>> : std::true_type {};

bool parse_bool(const ConfigNode& node, std::string_view key);
int64_t parse_int(const ConfigNode& node, std::string_view key);
double parse_double(const ConfigNode& node, std::string_view key);
std::string parse_string(const ConfigNode& node, std::string_view key);
[[noreturn]] void fail_unknown_key(const ConfigNode& node, std::string_view key,
                                   const std::vector<std::string>& known);
[[noreturn]] void fail_unknown_choice(const ConfigNode& node, std::string_view key,
                                      const std::vector<std::string>& choices);
[[noreturn]] void fail_kind(const ConfigNode& node, std::string_view key, std::string_view expected);
std::string join_key(std::string_view parent, std::string_view key);

template <typename T>
void read_value(const ConfigNode& node, T& value, const std::string& key);

struct FieldReader {
  const ConfigNode& node;
  const std::string& parent;
  std::vector<std::string> known;

  template <typename T>
  void operator()(std::string_view name, T& value, std::string_view) {
    known.emplace_back(name);
    if (const ConfigNode* entry = node.find(name)) read_value(*entry, value, join_key(parent, name));
  }
};

template <typename T>
void read_struct(const ConfigNode& node, T& value, const std::string& key) {
  if (node.kind == ConfigNode::Kind::kNull) return;
  if (node.kind != ConfigNode::Kind::kMap) fail_kind(node, key, "a map of settings");
  FieldReader reader{.node = node, .parent = key, .known = {}};
  value.visit_fields(reader);
  for (const auto& [name, entry] : node.entries) {
    bool found = false;
    for (const std::string& known : reader.known) found = found || known == name;
    if (!found) fail_unknown_key(entry, join_key(key, name), reader.known);
  }
}

template <typename T>
void read_value(const ConfigNode& node, T& value, const std::string& key) {
  if constexpr (IsOptional<T>::value) {
    const bool none = node.kind == ConfigNode::Kind::kNull ||
                      (node.kind == ConfigNode::Kind::kScalar && !node.quoted &&
                       (node.scalar == "null" || node.scalar == "~" ||
                        (std::is_arithmetic_v<typename T::value_type> && node.scalar == "auto")));
    if (none) {
      value.reset();
    } else {
      value.emplace();
      read_value(node, *value, key);
    }
  } else if constexpr (FieldStruct<T>) {
    read_struct(node, value, key);
  } else if constexpr (IsVector<T>::value || IsArray<T>::value) {
    if (node.kind != ConfigNode::Kind::kList) fail_kind(node, key, "a list");
    if constexpr (IsVector<T>::value) {
      value.clear();
      value.resize(node.items.size());
    }
    if (node.items.size() != value.size()) fail_kind(node, key, fmt::format("a list of {}", value.size()));
    for (size_t i = 0; i < node.items.size(); ++i)
      read_value(node.items[i], value[i], fmt::format("{}[{}]", key, i));
  } else if constexpr (std::is_same_v<T, Json>) {
    value = config_to_json(node);
  } else if constexpr (std::is_same_v<T, bool>) {
    value = parse_bool(node, key);
  } else if constexpr (std::is_integral_v<T>) {
    value = static_cast<T>(parse_int(node, key));
  } else if constexpr (std::is_floating_point_v<T>) {
    value = static_cast<T>(parse_double(node, key));
  } else if constexpr (NamedEnum<T>) {
    const std::string text = parse_string(node, key);
    std::vector<std::string> choices;
    for (const auto& entry : enum_names(value)) {
      choices.emplace_back(entry.name);
      if (entry.name == text) {
        value = entry.value;
        return;
      }
    }
    fail_unknown_choice(node, key, choices);
  } else {
    static_assert(std::is_same_v<T, std::string>, "no reader for this field type");
    value = parse_string(node, key);
  }
}

template <typename T>
Json write_value(T& value);

struct FieldWriter {
  Json json = Json::object();
  template <typename T>
  void operator()(std::string_view name, T& value, std::string_view) {
    json[std::string(name)] = write_value(value);
  }
};

template <typename T>
Json write_value(T& value) {
  if constexpr (IsOptional<T>::value) {
    return value ? write_value(*value) : Json(nullptr);
  } else if constexpr (FieldStruct<T>) {
    FieldWriter writer;
    value.visit_fields(writer);
    return writer.json;
  } else if constexpr (IsVector<T>::value || IsArray<T>::value) {
    Json list = Json::array();
    for (auto& item : value) list.push_back(write_value(item));
    return list;
  } else if constexpr (NamedEnum<T>) {
    return std::string(to_string(value));
  } else {
    return value;
  }
}

struct FieldDocumenter {
  std::string prefix;
  std::string markdown;

  template <typename T>
  void operator()(std::string_view name, T& value, std::string_view help) {
    const std::string key = join_key(prefix, name);
    if constexpr (FieldStruct<T>) {
      FieldDocumenter inner{.prefix = key, .markdown = {}};
      value.visit_fields(inner);
      markdown += inner.markdown;
    } else {
      std::string choices;
      if constexpr (NamedEnum<T>) {
        for (const auto& entry : enum_names(value))
          choices += fmt::format("{}`{}`", choices.empty() ? "" : ", ", entry.name);
        choices = " (" + choices + ")";
      }
      markdown +=
          fmt::format("| `{}` | `{}` | {}{} |\n", key, to_json_line(write_value(value)), help, choices);
    }
  }
};

}  // namespace fields_internal

/// Reads a tree into a struct; fields that are absent keep their values. An unknown key, a wrong type or an
/// unknown choice throws kInvalidArgument naming place, dotted key and the nearest known name.
template <typename T>
void read_fields(const ConfigNode& node, T& value) {
  fields_internal::read_struct(node, value, "");
}

/// All fields as JSON, in the order of the listing.
template <typename T>
Json write_fields(const T& value) {
  T copy = value;
  return fields_internal::write_value(copy);
}

/// Markdown table rows `| key | default | help |`, nested structs flattened to dotted keys.
template <typename T>
std::string document_fields() {
  T value;
  fields_internal::FieldDocumenter documenter;
  value.visit_fields(documenter);
  return documenter.markdown;
}

/// The known word nearest to `word` by edit distance, or empty when none is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace calyrex
