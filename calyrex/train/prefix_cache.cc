#include "calyrex/train/prefix_cache.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/log.h"
#include "calyrex/base/sha256.h"

namespace calyrex::train {
namespace {

constexpr uint64_t kMagic = 0x31307865'66657270ULL;  // "prefex01"

/// FNV-1a over 64-bit words: enough to tell a page that never reached the disk.
uint64_t checksum_of(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t size = std::min(bytes.size(), sizeof(word));
    std::memcpy(&word, bytes.data(), size);
    hash = (hash ^ word) * 0x100000001b3ULL;
    bytes = bytes.subspan(size);
  }
  return hash;
}

/// False at the end of the file.
bool read_whole(int descriptor, int64_t offset, void* data, size_t size) {
  auto* to = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t count = ::pread(descriptor, to, size, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    to += count;
    offset += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

bool write_whole(int descriptor, int64_t offset, const void* data, size_t size) {
  const auto* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t count = ::pwrite(descriptor, from, size, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    from += count;
    offset += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

std::string backbone_digest(const weights::ModelSource& model) {
  constexpr size_t kWholeBytes = size_t{1} << 20;
  constexpr size_t kSamples = 16, kSampleBytes = size_t{64} << 10;
  Sha256 digest;
  for (const weights::TensorView& tensor : model.tensors()) {
    digest.update(fmt::format("{} {} ", tensor.name, weights::dtype_name(tensor.dtype)));
    for (const int64_t size : tensor.shape) digest.update(fmt::format("{} ", size));
    if (tensor.data.size() <= kWholeBytes + kSamples * kSampleBytes) {
      digest.update(tensor.data);
      continue;
    }
    const size_t stride = (tensor.data.size() - kSampleBytes) / (kSamples - 1);
    for (size_t i = 0; i < kSamples; ++i) digest.update(tensor.data.subspan(i * stride, kSampleBytes));
  }
  return digest.hex_digest();
}

PrefixCache::PrefixCache(Options options) : options_(std::move(options)) {
  make_directories(options_.folder);
  const std::string name =
      sha256_hex(fmt::format("{} {} {}", options_.identity, options_.layer, options_.width));
  path_ = options_.folder / fmt::format("layer{}-{}.states", options_.layer, name.substr(0, 16));
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(ErrorCode::kIo, "cannot open {}: {}", path_.string(), std::strerror(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    full_ = true;
    log_info("{} is in use by another process; its states are computed anew here", path_.string());
    return;
  }
  read_index();
}

PrefixCache::~PrefixCache() { ::close(descriptor_); }

PrefixCache::Key PrefixCache::key_of(const std::vector<TokenId>& token_ids) {
  Sha256 digest;
  digest.update(std::as_bytes(std::span(token_ids)));
  const std::string hex = digest.hex_digest();
  Key key{};
  for (size_t i = 0; i < key.size(); ++i) {
    key[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return key;
}

void PrefixCache::read_index() {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail(ErrorCode::kIo, "cannot read {}", path_.string());
  const auto size = static_cast<int64_t>(status.st_size);
  const int64_t row_bytes = options_.width * 2;
  int64_t offset = 0;
  Header header;
  while (read_whole(descriptor_, offset, &header, sizeof(header))) {
    const int64_t begin = offset + static_cast<int64_t>(sizeof(header));
    const bool sound = header.magic == kMagic && header.num_bytes % static_cast<uint64_t>(row_bytes) == 0 &&
                       header.num_bytes <= static_cast<uint64_t>(size - begin);
    if (!sound) break;
    offsets_[header.key] = begin;
    offset = begin + static_cast<int64_t>(header.num_bytes);
  }
  if (offset < size && ::ftruncate(descriptor_, offset) != 0) {
    fail(ErrorCode::kIo, "cannot shorten {}: {}", path_.string(), std::strerror(errno));
  }
  counts_.bytes = offset;
}

bool PrefixCache::load(const std::vector<TokenId>& token_ids, std::span<std::byte> states) {
  const auto found = offsets_.find(key_of(token_ids));
  if (found != offsets_.end()) {
    Header header;
    const int64_t header_offset = found->second - static_cast<int64_t>(sizeof(header));
    const bool read = read_whole(descriptor_, header_offset, &header, sizeof(header)) &&
                      header.num_bytes == states.size() && header.key == found->first &&
                      read_whole(descriptor_, found->second, states.data(), states.size());
    if (read && header.checksum == checksum_of(states)) {
      ++counts_.hits;
      return true;
    }
    offsets_.erase(found);
  }
  ++counts_.misses;
  return false;
}

void PrefixCache::store(const std::vector<TokenId>& token_ids, std::span<const std::byte> states) {
  const auto record_bytes = static_cast<int64_t>(sizeof(Header) + states.size());
  if (full_) return;
  if (counts_.bytes + record_bytes > options_.budget_bytes) {
    full_ = true;
    log_info("the prefix cache is full: {} rows in {:.2f} GiB; other rows are computed anew in each epoch",
             offsets_.size(), static_cast<double>(counts_.bytes) / (1 << 30));
    return;
  }
  const Header header{
      .magic = kMagic, .num_bytes = states.size(), .checksum = checksum_of(states), .key = key_of(token_ids)};
  const auto begin = counts_.bytes + static_cast<int64_t>(sizeof(header));
  if (!write_whole(descriptor_, counts_.bytes, &header, sizeof(header)) ||
      !write_whole(descriptor_, begin, states.data(), states.size())) {
    full_ = true;
    log_warning("the prefix cache stays as it is: cannot write {}: {}", path_.string(), std::strerror(errno));
    if (::ftruncate(descriptor_, counts_.bytes) != 0) log_warning("cannot shorten {}", path_.string());
    return;
  }
  offsets_[header.key] = begin;
  counts_.bytes += record_bytes;
}

}  // namespace calyrex::train
