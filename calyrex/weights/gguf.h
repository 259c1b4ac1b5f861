// The GGUF container (https://github.com/ggml-org/ggml, docs/gguf.md), versions 2 and 3, little-endian:
// metadata and tensors of one file. What the metadata mean for a model is read in gguf_model.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/file.h"
#include "calyrex/base/json.h"
#include "calyrex/weights/tensor.h"

namespace calyrex::weights {

/// Value types of the metadata, numbered as in the file.
enum class GgufType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

/// One metadata value, still as bytes in the map; checked to lie inside the file.
struct GgufValue {
  GgufType type = GgufType::kUint8;
  GgufType element_type = GgufType::kUint8;  // of an array
  uint64_t count = 1;                        // elements of an array
  std::span<const std::byte> bytes;          // payload, without the array's header
};

/// A mapped GGUF file. Tensor names are the file's own, shapes are in Hugging Face order (rows first).
/// Accessors throw kCorruptData naming file and key when a value has another type than the caller needs.
class GgufFile {
 public:
  /// Throws kNotFound; kCorruptData with file and place for anything that does not fit the bytes;
  /// kUnsupported for other versions, big-endian files and tensor types that are not in DType.
  static GgufFile open(const std::filesystem::path& path);

  const std::vector<TensorView>& tensors() const { return tensors_; }
  const std::filesystem::path& path() const { return file_.path(); }
  size_t size_bytes() const { return file_.bytes().size(); }
  uint32_t version() const { return version_; }

  bool has(const std::string& key) const { return values_.contains(key); }
  std::optional<std::string> find_string(const std::string& key) const;
  std::optional<int64_t> find_int(const std::string& key) const;
  /// A float32 is read as the shortest decimal that gives it: 1e-5 is kept as 1e-5, as config.json has it.
  std::optional<double> find_number(const std::string& key) const;
  std::optional<bool> find_bool(const std::string& key) const;
  std::vector<std::string> strings(const std::string& key) const;
  std::vector<float> floats(const std::string& key) const;
  /// An integer array, or one integer.
  std::vector<int64_t> ints(const std::string& key) const;

  std::string string(const std::string& key) const;
  int64_t integer(const std::string& key) const;
  double number(const std::string& key) const;

  /// All metadata for people: arrays become "[49152 strings]", long texts are cut.
  Json summary() const;

  /// Throws kCorruptData, "<file>: <message>".
  [[noreturn]] void fail_corrupt(const std::string& message) const;

 private:
  friend class GgufReader;
  explicit GgufFile(MappedFile file) : file_(std::move(file)) {}
  const GgufValue* find(const std::string& key) const;
  [[noreturn]] void fail_type(const std::string& key, std::string_view expected) const;
  [[noreturn]] void fail_missing(const std::string& key) const;

  MappedFile file_;
  uint32_t version_ = 0;
  std::map<std::string, GgufValue> values_;
  std::vector<TensorView> tensors_;
};

}  // namespace calyrex::weights
