// Small files for the tests: temporary folders, safetensors and GGUF bytes made by hand, and error
// expectations.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"

namespace calyrex::test {

/// A folder that is removed with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "calyrex-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string read_bytes(const std::filesystem::path& path) { return read_file(path, SIZE_MAX); }

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// Header text and data as a safetensors file.
inline std::string safetensors_bytes(std::string_view header, size_t data_bytes) {
  std::string bytes;
  append<uint64_t>(bytes, header.size());
  bytes += header;
  bytes.append(data_bytes, '\x3c');
  return bytes;
}

/// Writes GGUF version 3 by hand, valid or not.
class GgufBuilder {
 public:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dimensions;  // in file order: row length first
    uint32_t type = 0;
    std::string data;
    int64_t offset = -1;  // -1: right after the last one
  };

  uint32_t version = 3;
  uint64_t alignment = 32;
  int64_t tensor_count = -1;  // -1: as many as there are
  int64_t entry_count = -1;
  std::vector<Tensor> tensors;

  void add(std::string_view key, uint32_t type, std::string_view payload) {
    append_string(entries_, key);
    append<uint32_t>(entries_, type);
    entries_ += payload;
    ++entries_added_;
  }
  void add_u32(std::string_view key, uint32_t value) { add(key, 4, raw(value)); }
  void add_f32(std::string_view key, float value) { add(key, 6, raw(value)); }
  void add_bool(std::string_view key, uint8_t value) { add(key, 7, raw(value)); }
  void add_string(std::string_view key, std::string_view value) {
    std::string payload;
    append_string(payload, value);
    add(key, 8, payload);
  }
  void add_strings(std::string_view key, const std::vector<std::string>& values) {
    std::string payload = raw(uint32_t{8}) + raw(uint64_t{values.size()});
    for (const std::string& value : values) append_string(payload, value);
    add(key, 9, payload);
  }

  std::string bytes() const {
    std::string file = "GGUF";
    append<uint32_t>(file, version);
    append<uint64_t>(file, tensor_count < 0 ? tensors.size() : static_cast<uint64_t>(tensor_count));
    append<uint64_t>(file, entry_count < 0 ? entries_added_ : static_cast<uint64_t>(entry_count));
    file += entries_;
    std::string data;
    for (const Tensor& tensor : tensors) {
      data.resize((data.size() + alignment - 1) / alignment * alignment, '\0');
      append_string(file, tensor.name);
      append<uint32_t>(file, static_cast<uint32_t>(tensor.dimensions.size()));
      for (const uint64_t size : tensor.dimensions) append<uint64_t>(file, size);
      append<uint32_t>(file, tensor.type);
      append<uint64_t>(file, tensor.offset < 0 ? data.size() : static_cast<uint64_t>(tensor.offset));
      data += tensor.data;
    }
    file.resize((file.size() + alignment - 1) / alignment * alignment, '\0');
    return file + data;
  }

  template <typename T>
  static std::string raw(T value) {
    std::string bytes;
    append(bytes, value);
    return bytes;
  }
  static void append_string(std::string& bytes, std::string_view text) {
    append<uint64_t>(bytes, text.size());
    bytes += text;
  }

 private:
  std::string entries_;
  uint64_t entries_added_ = 0;
};

/// The smallest GGUF model: one layer, one head of two values.
inline GgufBuilder tiny_gguf() {
  GgufBuilder file;
  file.add_string("general.architecture", "llama");
  file.add_u32("llama.embedding_length", 2);
  file.add_u32("llama.block_count", 1);
  file.add_u32("llama.context_length", 8);
  file.add_u32("llama.feed_forward_length", 2);
  file.add_u32("llama.attention.head_count", 1);
  file.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  file.add_string("tokenizer.ggml.model", "gpt2");
  file.add_strings("tokenizer.ggml.tokens", {"a", "b"});
  const auto matrix = [&](std::string name) {
    file.tensors.push_back({.name = std::move(name), .dimensions = {2, 2}, .data = std::string(16, '\0')});
  };
  const auto vector = [&](std::string name) {
    file.tensors.push_back({.name = std::move(name), .dimensions = {2}, .data = std::string(8, '\0')});
  };
  matrix("token_embd.weight");
  vector("output_norm.weight");
  vector("blk.0.attn_norm.weight");
  vector("blk.0.ffn_norm.weight");
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
    matrix(fmt::format("blk.0.{}.weight", name));
  }
  return file;
}

/// Runs `function` and expects an Error of that code whose text contains `part` and is one line.
template <typename Function>
void expect_error(ErrorCode code, std::string_view part, Function&& function) {
  try {
    function();
    ADD_FAILURE() << "no error; expected one with: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error_code_name(error.code()), error_code_name(code)) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
        << "got:      " << error.what() << "\nexpected: " << part;
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
  }
}

}  // namespace calyrex::test
