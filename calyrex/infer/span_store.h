// Keys and values of system spans, as an adapter's blocks compute them: once a span, whoever asks and
// whatever is generated.
#pragma once

#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "calyrex/infer/core/sequence.h"
#include "calyrex/infer/paged_cache.h"

namespace calyrex::infer {

/// One adapter's spans. The span tokens of a sequence are numbered through all its spans; the n-th lies in
/// slot n of its pages. Spans of sequences that have ended stay, up to a limit, for sequences with the same
/// tokens up to the last span's end, the same spans and the same scale. Grows on demand: a span is never
/// longer than its sequence, whose own pages are limited. Sequences must live until they are forgotten.
class SpanStore {
 public:
  explicit SpanStore(PagedCache::Shape shape, at::ScalarType dtype, at::Device device);

  /// As Executor::resume(): `tokens` when the sequence computes all its span tokens itself, or when all of
  /// them are here, which it then shares; else the begin of its first span.
  int64_t resume(const Sequence& sequence, int64_t tokens);
  /// Makes room for all span tokens of the sequence, if there is none yet.
  void reserve(const Sequence& sequence);
  /// Pages of a sequence with room.
  std::span<const PageId> pages(const Sequence& sequence) const;
  void forget(const Sequence& sequence);

  PagedCache& cache() { return cache_; }

 private:
  /// What the keys and values of a span depend on.
  struct Key {
    double scale = 1.0;
    std::vector<int64_t> spans;   // begins and ends
    std::vector<TokenId> tokens;  // up to the last span's end

    auto operator<=>(const Key&) const = default;
  };
  struct Span {
    std::vector<PageId> pages;
    const Key* kept = nullptr;  // its place in kept_
    int64_t users = 0;
    std::list<Span*>::iterator idle;  // its place in idle_, when kept without users
  };
  struct User {
    std::shared_ptr<Span> span;
    const Sequence* sequence = nullptr;
  };

  static Key key(const Sequence& sequence);
  /// Keeps the span of a sequence that has computed it whole.
  void keep_if_complete(const User& user);
  void attach(const Sequence& sequence, const std::shared_ptr<Span>& span);
  void free_pages(const Span& span);
  void drop_idle(int64_t most_pages);

  PagedCache cache_;
  PagePool pool_;
  std::map<lm::RequestId, User> users_;
  std::map<Key, std::shared_ptr<Span>> kept_;
  std::list<Span*> idle_;  // the latest first
  int64_t idle_pages_ = 0;
};

}  // namespace calyrex::infer
