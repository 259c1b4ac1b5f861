// The safetensors format (https://github.com/huggingface/safetensors): one file, or shards with an index.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "calyrex/base/file.h"
#include "calyrex/weights/tensor.h"

namespace calyrex::weights {

/// A mapped safetensors file. Throws kNotFound, and kCorruptData naming file and tensor when header, offsets,
/// overlaps, gaps, dtype or shape do not fit the bytes.
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path);

  /// Sorted by name.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return file_.path(); }
  size_t size_bytes() const { return file_.bytes().size(); }

 private:
  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// One tensor to write; `data` must stay alive until the write ends.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;  // plain types only
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

/// Writes atomically. Tensors keep the given order.
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace calyrex::weights
