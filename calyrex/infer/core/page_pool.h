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
/// touches little memory. A page that is kept becomes idle instead of free when its last holder goes.
/// Thread-compatible.
class PagePool {
 public:
  explicit PagePool(int64_t num_pages);

  /// Appends `count` pages with one reference each to `pages`; false, and nothing changed, when too few are
  /// free.
  bool allocate(int64_t count, std::vector<PageId>& pages);
  /// One more holder of a page that is held or idle.
  void retain(PageId page);
  /// One holder fewer; the last one frees the page, unless it is kept.
  void release(PageId page);
  /// A held page is not to become free.
  void keep(PageId page);
  /// Frees an idle page.
  void drop(PageId page);
  /// More free pages, numbered after those there are.
  void grow(int64_t num_pages);

  int64_t num_pages() const { return static_cast<int64_t>(references_.size()); }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }
  /// Pages that are kept and that nobody holds.
  int64_t num_idle() const { return num_idle_; }
  bool is_idle(PageId page) const {
    const auto at = static_cast<size_t>(page);
    return kept_[at] && references_[at] == 0;
  }

 private:
  std::vector<int32_t> references_;
  std::vector<bool> kept_;
  std::vector<PageId> free_;  // the last is taken first
  int64_t num_idle_ = 0;
};

}  // namespace calyrex::infer
