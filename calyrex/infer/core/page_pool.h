// Pages of a key/value cache: which are free, and how many sequences hold each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace calyrex::infer {

using PageId = int32_t;

/// Where key `index` of a sequence lies in a cache: page * page_size + offset.
inline int64_t cache_slot(std::span<const PageId> pages, int64_t page_size, int64_t index) {
  return int64_t{pages[static_cast<size_t>(index / page_size)]} * page_size + index % page_size;
}

/// Page numbers [0, num_pages) with reference counts. The page freed last is used first, so that a small load
/// touches little memory. Thread-compatible.
class PagePool {
 public:
  explicit PagePool(int64_t num_pages);

  /// Appends `count` pages with one reference each to `pages`; false, and nothing changed, when too few are
  /// free.
  bool allocate(int64_t count, std::vector<PageId>& pages);
  /// One more holder of a page.
  void retain(PageId page);
  /// One holder fewer; the last one frees the page.
  void release(PageId page);
  /// More free pages, numbered after those there are.
  void grow(int64_t num_pages);

  int64_t num_pages() const { return static_cast<int64_t>(references_.size()); }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }

 private:
  std::vector<int32_t> references_;
  std::vector<PageId> free_;  // the last is taken first
};

}  // namespace calyrex::infer
