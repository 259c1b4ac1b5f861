#include "calyrex/infer/core/page_pool.h"

#include "calyrex/base/error.h"

namespace calyrex::infer {

PagePool::PagePool(int64_t num_pages) { grow(num_pages); }

void PagePool::grow(int64_t num_pages) {
  const int64_t old_pages = this->num_pages();
  CALYREX_CHECK(num_pages >= old_pages, "{} pages, {} asked for", old_pages, num_pages);
  references_.resize(static_cast<size_t>(num_pages), 0);
  kept_.resize(references_.size(), false);
  std::vector<PageId> added;
  for (int64_t page = num_pages - 1; page >= old_pages; --page) added.push_back(static_cast<PageId>(page));
  free_.insert(free_.begin(), added.begin(), added.end());
}

bool PagePool::allocate(int64_t count, std::vector<PageId>& pages) {
  if (count > num_free()) return false;
  for (int64_t i = 0; i < count; ++i) {
    const PageId page = free_.back();
    free_.pop_back();
    references_[static_cast<size_t>(page)] = 1;
    pages.push_back(page);
  }
  return true;
}

void PagePool::retain(PageId page) {
  const bool idle = is_idle(page);
  CALYREX_CHECK(idle || references_.at(static_cast<size_t>(page)) > 0, "page {} is free", page);
  if (idle) --num_idle_;
  ++references_[static_cast<size_t>(page)];
}

void PagePool::release(PageId page) {
  int32_t& references = references_.at(static_cast<size_t>(page));
  CALYREX_CHECK(references > 0, "page {} is free", page);
  if (--references > 0) return;
  if (kept_[static_cast<size_t>(page)]) {
    ++num_idle_;
  } else {
    free_.push_back(page);
  }
}

void PagePool::keep(PageId page) {
  CALYREX_CHECK(references_.at(static_cast<size_t>(page)) > 0, "page {} is not held", page);
  kept_[static_cast<size_t>(page)] = true;
}

void PagePool::drop(PageId page) {
  CALYREX_CHECK(is_idle(page), "page {} is not idle", page);
  kept_[static_cast<size_t>(page)] = false;
  --num_idle_;
  free_.push_back(page);
}

}  // namespace calyrex::infer
