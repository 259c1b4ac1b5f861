#include "calyrex/infer/span_store.h"

#include <algorithm>

#include "calyrex/base/error.h"

namespace calyrex::infer {
namespace {

constexpr int64_t kFirstPages = 64;
/// Pages of spans that nobody uses.
constexpr int64_t kMostIdlePages = 512;

int64_t count_span_tokens(const Sequence& sequence) {
  int64_t count = 0;
  for (const TokenSpan& span : sequence.system_spans) count += span.length();
  return count;
}

}  // namespace

SpanStore::SpanStore(PagedCache::Shape shape, at::ScalarType dtype, at::Device device)
    : cache_(std::move(shape), kFirstPages, dtype, device), pool_(kFirstPages) {}

SpanStore::Key SpanStore::key(const Sequence& sequence) {
  const int64_t end = sequence.system_spans.back().end;
  Key key{.scale = sequence.scale,
          .spans = {},
          .tokens = {sequence.token_ids.begin(), sequence.token_ids.begin() + end}};
  for (const TokenSpan& span : sequence.system_spans) {
    key.spans.push_back(span.begin);
    key.spans.push_back(span.end);
  }
  return key;
}

int64_t SpanStore::resume(const Sequence& sequence, int64_t tokens) {
  if (users_.contains(sequence.id)) return tokens;  // it took over a whole span already
  if (sequence.system_spans.empty() || tokens <= sequence.system_spans.front().begin) return tokens;
  if (tokens >= sequence.system_spans.back().end) {
    for (const auto& [id, user] : users_) keep_if_complete(user);
    const auto found = kept_.find(key(sequence));
    if (found != kept_.end()) {
      attach(sequence, found->second);
      return tokens;
    }
  }
  return sequence.system_spans.front().begin;
}

void SpanStore::keep_if_complete(const User& user) {
  const Sequence& sequence = *user.sequence;
  if (user.span->kept != nullptr || sequence.system_spans.empty() ||
      sequence.computed < sequence.system_spans.back().end) {
    return;
  }
  const auto [place, is_new] = kept_.try_emplace(key(sequence), user.span);
  if (is_new) user.span->kept = &place->first;
}

void SpanStore::attach(const Sequence& sequence, const std::shared_ptr<Span>& span) {
  if (span->users++ == 0 && span->kept != nullptr) {
    idle_.erase(span->idle);
    idle_pages_ -= static_cast<int64_t>(span->pages.size());
  }
  users_.emplace(sequence.id, User{span, &sequence});
}

void SpanStore::reserve(const Sequence& sequence) {
  if (users_.contains(sequence.id)) return;
  const int64_t page_size = cache_.shape().page_size;
  const int64_t count = (count_span_tokens(sequence) + page_size - 1) / page_size;
  auto span = std::make_shared<Span>();
  if (count > pool_.num_free()) {
    const int64_t used = pool_.num_pages() - pool_.num_free();
    const int64_t grown = std::max(2 * pool_.num_pages(), used + count);
    cache_.grow(grown);
    pool_.grow(grown);
  }
  CALYREX_CHECK(pool_.allocate(count, span->pages), "{} pages for a span", count);
  attach(sequence, span);
}

std::span<const PageId> SpanStore::pages(const Sequence& sequence) const {
  return users_.at(sequence.id).span->pages;
}

void SpanStore::forget(const Sequence& sequence) {
  const auto found = users_.find(sequence.id);
  if (found == users_.end()) return;
  keep_if_complete(found->second);
  const std::shared_ptr<Span> span = found->second.span;
  users_.erase(found);
  if (--span->users > 0) return;
  if (span->kept == nullptr) {
    free_pages(*span);
    return;
  }
  span->idle = idle_.insert(idle_.begin(), span.get());
  idle_pages_ += static_cast<int64_t>(span->pages.size());
  drop_idle(kMostIdlePages);
}

void SpanStore::free_pages(const Span& span) {
  for (auto page = span.pages.rbegin(); page != span.pages.rend(); ++page) pool_.release(*page);
}

void SpanStore::drop_idle(int64_t most_pages) {
  while (idle_pages_ > most_pages && !idle_.empty()) {
    const Span& oldest = *idle_.back();
    idle_.pop_back();
    idle_pages_ -= static_cast<int64_t>(oldest.pages.size());
    free_pages(oldest);
    kept_.erase(kept_.find(*oldest.kept));
  }
}

}  // namespace calyrex::infer
