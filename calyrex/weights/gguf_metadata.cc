// Typed access to the metadata of a GGUF file.
#include <charconv>
#include <cstring>

#include "calyrex/base/error.h"
#include "calyrex/weights/gguf.h"
#include "calyrex/weights/printable.h"

namespace calyrex::weights {
namespace {

template <typename T>
T load(std::span<const std::byte> bytes, uint64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

std::optional<int64_t> load_int(GgufType type, std::span<const std::byte> bytes, uint64_t index) {
  switch (type) {
    case GgufType::kUint8:
      return load<uint8_t>(bytes, index);
    case GgufType::kInt8:
      return load<int8_t>(bytes, index);
    case GgufType::kUint16:
      return load<uint16_t>(bytes, index);
    case GgufType::kInt16:
      return load<int16_t>(bytes, index);
    case GgufType::kUint32:
      return load<uint32_t>(bytes, index);
    case GgufType::kInt32:
      return load<int32_t>(bytes, index);
    case GgufType::kInt64:
      return load<int64_t>(bytes, index);
    case GgufType::kUint64: {
      const auto value = load<uint64_t>(bytes, index);
      if (value > uint64_t{INT64_MAX}) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

double shortest_decimal(float value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  double result = value;
  std::from_chars(text, end, result);
  return result;
}

std::string load_string(std::span<const std::byte>& rest) {
  const auto length = load<uint64_t>(rest, 0);
  std::string text(reinterpret_cast<const char*>(rest.data()) + sizeof(uint64_t), length);
  rest = rest.subspan(sizeof(uint64_t) + length);
  return text;
}

std::string_view type_noun(GgufType type) {
  switch (type) {
    case GgufType::kString:
      return "strings";
    case GgufType::kFloat32:
    case GgufType::kFloat64:
      return "numbers";
    case GgufType::kBool:
      return "booleans";
    default:
      return "integers";
  }
}

Json summary_of(const GgufValue& value) {
  constexpr size_t kMaxText = 200;
  if (value.type == GgufType::kArray)
    return fmt::format("[{} {}]", value.count, type_noun(value.element_type));
  if (value.type == GgufType::kString) {
    std::span<const std::byte> rest = value.bytes;
    std::string text = load_string(rest);
    if (text.size() > kMaxText) text = text.substr(0, kMaxText) + fmt::format("... ({} bytes)", text.size());
    return text;
  }
  if (value.type == GgufType::kBool) return load<uint8_t>(value.bytes, 0) != 0;
  if (value.type == GgufType::kFloat32) return shortest_decimal(load<float>(value.bytes, 0));
  if (value.type == GgufType::kFloat64) return load<double>(value.bytes, 0);
  if (value.type == GgufType::kUint64) return load<uint64_t>(value.bytes, 0);
  return *load_int(value.type, value.bytes, 0);
}

}  // namespace

const GgufValue* GgufFile::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void GgufFile::fail_type(const std::string& key, std::string_view expected) const {
  fail_corrupt(fmt::format("metadata key {} must be {}", printable(key), expected));
}

void GgufFile::fail_missing(const std::string& key) const {
  fail_corrupt(fmt::format("metadata key {} is missing", key));
}

std::optional<std::string> GgufFile::find_string(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kString) fail_type(key, "text");
  std::span<const std::byte> rest = value->bytes;
  return load_string(rest);
}

std::optional<int64_t> GgufFile::find_int(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = load_int(value->type, value->bytes, 0);
  if (!number) fail_type(key, "a whole number");
  return number;
}

std::optional<double> GgufFile::find_number(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type == GgufType::kFloat32) return shortest_decimal(load<float>(value->bytes, 0));
  if (value->type == GgufType::kFloat64) return load<double>(value->bytes, 0);
  const std::optional<int64_t> number = load_int(value->type, value->bytes, 0);
  if (!number) fail_type(key, "a number");
  return static_cast<double>(*number);
}

std::optional<bool> GgufFile::find_bool(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::kBool) fail_type(key, "true or false");
  return load<uint8_t>(value->bytes, 0) != 0;
}

std::vector<std::string> GgufFile::strings(const std::string& key) const {
  std::vector<std::string> result;
  const GgufValue* value = find(key);
  if (value == nullptr) return result;
  if (value->type != GgufType::kArray || value->element_type != GgufType::kString)
    fail_type(key, "a list of texts");
  result.reserve(value->count);
  std::span<const std::byte> rest = value->bytes;
  for (uint64_t i = 0; i < value->count; ++i) result.push_back(load_string(rest));
  return result;
}

std::vector<float> GgufFile::floats(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  if (value->type != GgufType::kArray || value->element_type != GgufType::kFloat32) {
    fail_type(key, "a list of float32 numbers");
  }
  std::vector<float> result(value->count);
  if (!result.empty()) std::memcpy(result.data(), value->bytes.data(), value->bytes.size());
  return result;
}

std::vector<int64_t> GgufFile::ints(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  const GgufType type = value->type == GgufType::kArray ? value->element_type : value->type;
  std::vector<int64_t> result;
  result.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    const std::optional<int64_t> number = load_int(type, value->bytes, i);
    if (!number) fail_type(key, "whole numbers");
    result.push_back(*number);
  }
  return result;
}

std::string GgufFile::string(const std::string& key) const {
  std::optional<std::string> value = find_string(key);
  if (!value) fail_missing(key);
  return *std::move(value);
}

int64_t GgufFile::integer(const std::string& key) const {
  const std::optional<int64_t> value = find_int(key);
  if (!value) fail_missing(key);
  return *value;
}

double GgufFile::number(const std::string& key) const {
  const std::optional<double> value = find_number(key);
  if (!value) fail_missing(key);
  return *value;
}

Json GgufFile::summary() const {
  Json result = Json::object();
  for (const auto& [key, value] : values_) result[key] = summary_of(value);
  return result;
}

}  // namespace calyrex::weights
