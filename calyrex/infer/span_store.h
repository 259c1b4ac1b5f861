// Keys and values of system spans, as an adapter's blocks compute them: once a sequence, whatever it
// generates.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "calyrex/infer/core/sequence.h"
#include "calyrex/infer/paged_cache.h"

namespace calyrex::infer {

/// One adapter's spans. The span tokens of a sequence are numbered through all its spans; the n-th lies in
/// slot n of the sequence's pages. Grows on demand: a span is never longer than its sequence, whose own pages
/// are limited.
class SpanStore {
 public:
  explicit SpanStore(PagedCache::Shape shape, at::ScalarType dtype, at::Device device);

  /// Makes room for all span tokens of the sequence, if there is none yet.
  void reserve(const Sequence& sequence);
  /// Pages of a sequence with room.
  std::span<const PageId> pages(const Sequence& sequence) const;
  void forget(const Sequence& sequence);

  PagedCache& cache() { return cache_; }

 private:
  PagedCache cache_;
  PagePool pool_;
  std::map<lm::RequestId, std::vector<PageId>> tables_;
};

}  // namespace calyrex::infer
