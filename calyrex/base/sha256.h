// SHA-256 (FIPS 180-4), incremental.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace calyrex {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// 64 lower-case hexadecimal digits; the object is spent afterwards.
  std::string hex_digest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_hex(std::string_view text);

/// Of a file's bytes. Throws as MappedFile::open.
std::string file_sha256(const std::filesystem::path& path);

}  // namespace calyrex
