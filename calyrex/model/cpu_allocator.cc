#include "calyrex/model/cpu_allocator.h"

#include <bit>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <new>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Device.h>
#include <malloc.h>
#include <sys/mman.h>

namespace calyrex::model {
namespace {

constexpr size_t kAlignment = 64;
/// Smaller requests go to the C library, which serves them well.
constexpr size_t kSmallestCached = size_t{64} << 10;
/// Of more free memory than this the blocks that were given back first go to the system: less where much is
/// in use, and blocks of other sizes come in great numbers.
constexpr size_t kMaxFreeBytes = size_t{640} << 20;
constexpr size_t kMuchInUse = size_t{3} << 29;
constexpr size_t kMaxFreeBesideMuch = size_t{256} << 20;

/// Four classes an octave: at most a quarter of a block is unused.
size_t size_class(size_t bytes) {
  const size_t step = std::bit_floor(bytes) / 4;
  return (bytes + step - 1) / step * step;
}

/// Memory of a cached block, straight from the system, so that giving it back works whatever else was
/// allocated.
void* map_block(size_t class_bytes) {
  void* block =
      ::mmap(nullptr, class_bytes + kAlignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return block == MAP_FAILED ? nullptr : block;
}

/// Stands before every block; 0 = not cached.
struct Header {
  size_t class_bytes;
};
static_assert(sizeof(Header) <= kAlignment);

class FreeBlocks {
 public:
  /// nullptr: none is free, and the caller takes one from the system.
  void* take(size_t class_bytes) {
    const std::lock_guard lock(mutex_);
    bytes_in_use_ += class_bytes;
    const auto found = classes_.find(class_bytes);
    if (found == classes_.end() || found->second.empty()) return nullptr;
    const auto newest = found->second.back();
    found->second.pop_back();
    void* block = newest->block;
    by_age_.erase(newest);
    free_bytes_ -= class_bytes;
    return block;
  }

  void give(void* block, size_t class_bytes) {
    const std::lock_guard lock(mutex_);
    classes_[class_bytes].push_back(by_age_.insert(by_age_.end(), {block, class_bytes}));
    free_bytes_ += class_bytes;
    bytes_in_use_ -= class_bytes;
    shrink_to(bytes_in_use_ > kMuchInUse ? kMaxFreeBesideMuch : kMaxFreeBytes);
  }

  void release() {
    const std::lock_guard lock(mutex_);
    shrink_to(0);
  }

 private:
  struct Block {
    void* block;
    size_t class_bytes;
  };

  void shrink_to(size_t bytes) {
    while (free_bytes_ > bytes) {
      const Block oldest = by_age_.front();
      by_age_.pop_front();
      classes_[oldest.class_bytes].pop_front();
      ::munmap(oldest.block, oldest.class_bytes + kAlignment);
      free_bytes_ -= oldest.class_bytes;
    }
  }

  std::mutex mutex_;
  std::list<Block> by_age_;  // oldest first
  std::map<size_t, std::deque<std::list<Block>::iterator>>
      classes_;  // the same blocks, each class oldest first
  size_t free_bytes_ = 0;
  size_t bytes_in_use_ = 0;  // of blocks that were taken and not given back
};

/// Never destroyed: tensors of static objects may outlive it.
FreeBlocks& free_blocks() {
  static FreeBlocks* const blocks = new FreeBlocks;
  return *blocks;
}

void release_block(void* data) {
  if (data == nullptr) return;
  std::byte* block = static_cast<std::byte*>(data) - kAlignment;
  const size_t class_bytes = reinterpret_cast<Header*>(block)->class_bytes;
  if (class_bytes == 0) {
    std::free(block);
  } else {
    free_blocks().give(block, class_bytes);
  }
}

class CachingCpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::Device(c10::kCPU)};
    const bool cached = bytes >= kSmallestCached;
    const size_t class_bytes =
        cached ? size_class(bytes) : (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* block = cached ? free_blocks().take(class_bytes) : nullptr;
    if (block == nullptr) {
      block = cached ? map_block(class_bytes) : std::aligned_alloc(kAlignment, class_bytes + kAlignment);
    }
    if (block == nullptr) throw std::bad_alloc();
    reinterpret_cast<Header*>(block)->class_bytes = cached ? class_bytes : 0;
    void* data = static_cast<std::byte*>(block) + kAlignment;
    return {data, data, &release_block, c10::Device(c10::kCPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release_block; }

  void copy_data(void* destination, const void* source, size_t count) const override {
    default_copy_data(destination, source, count);
  }
};

}  // namespace

void install_caching_cpu_allocator() {
  static CachingCpuAllocator* const allocator = [] {
    auto* created = new CachingCpuAllocator;
    c10::SetCPUAllocator(created, /*priority=*/1);
    return created;
  }();
  static_cast<void>(allocator);
}

void release_unused_memory() {
  free_blocks().release();
  ::malloc_trim(0);
}

}  // namespace calyrex::model
