#include "calyrex/infer/span_store.h"

#include <algorithm>

#include "calyrex/base/error.h"

namespace calyrex::infer {
namespace {

constexpr int64_t kFirstPages = 64;

int64_t count_span_tokens(const Sequence& sequence) {
  int64_t count = 0;
  for (const TokenSpan& span : sequence.system_spans) count += span.length();
  return count;
}

}  // namespace

SpanStore::SpanStore(PagedCache::Shape shape, at::ScalarType dtype, at::Device device)
    : cache_(std::move(shape), kFirstPages, dtype, device), pool_(kFirstPages) {}

void SpanStore::reserve(const Sequence& sequence) {
  if (tables_.contains(sequence.id)) return;
  const int64_t page_size = cache_.shape().page_size;
  const int64_t count = (count_span_tokens(sequence) + page_size - 1) / page_size;
  std::vector<PageId> table;
  if (count > pool_.num_free()) {
    const int64_t used = pool_.num_pages() - pool_.num_free();
    const int64_t grown = std::max(2 * pool_.num_pages(), used + count);
    cache_.grow(grown);
    pool_.grow(grown);
  }
  CALYREX_CHECK(pool_.allocate(count, table), "{} pages for a span", count);
  tables_.emplace(sequence.id, std::move(table));
}

std::span<const PageId> SpanStore::pages(const Sequence& sequence) const { return tables_.at(sequence.id); }

void SpanStore::forget(const Sequence& sequence) {
  const auto found = tables_.find(sequence.id);
  if (found == tables_.end()) return;
  for (auto page = found->second.rbegin(); page != found->second.rend(); ++page) pool_.release(*page);
  tables_.erase(found);
}

}  // namespace calyrex::infer
