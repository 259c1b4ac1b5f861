#include "calyrex/base/sha256.h"

#include <array>

#include <fmt/core.h>
#include <openssl/evp.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"

namespace calyrex {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  CALYREX_CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  CALYREX_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }

std::string Sha256::hex_digest() {
  std::array<unsigned char, 32> digest{};
  CALYREX_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), nullptr) == 1);
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex_digest();
}

std::string file_sha256(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  Sha256 hash;
  hash.update(file.bytes());
  return hash.hex_digest();
}

}  // namespace calyrex
