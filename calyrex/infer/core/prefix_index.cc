#include "calyrex/infer/core/prefix_index.h"

#include <algorithm>

#include "calyrex/base/error.h"

namespace calyrex::infer {

PrefixIndex::Key PrefixIndex::key(const Sequence& sequence, int64_t index, const Page* parent) const {
  const int64_t begin = index * page_size_;
  const int64_t end = begin + page_size_;
  Key key{.parent = parent == nullptr ? 0 : parent->number,
          .tokens = {sequence.token_ids.begin() + begin, sequence.token_ids.begin() + end},
          .spans = {}};
  if (sequence.adapter == nullptr || sequence.scale == 0.0) return key;
  key.adapter = sequence.adapter->number();
  key.scale = sequence.scale;
  for (const TokenSpan& span : sequence.system_spans) {
    if (span.begin >= end || span.end <= begin) continue;
    key.spans.push_back(std::max(span.begin, begin));
    key.spans.push_back(std::min(span.end, end));
  }
  return key;
}

void PrefixIndex::touch(Page* page) {
  for (; page != nullptr; page = page->parent) uses_.splice(uses_.begin(), uses_, page->use);
}

std::vector<PageId> PrefixIndex::find(const Sequence& sequence) {
  std::vector<PageId> found;
  Page* last = nullptr;
  const int64_t most = (sequence.length() - 1) / page_size_;
  for (int64_t index = 0; index < most; ++index) {
    const auto next = pages_.find(key(sequence, index, last));
    if (next == pages_.end()) break;
    last = &next->second;
    found.push_back(last->page);
  }
  touch(last);
  return found;
}

void PrefixIndex::adopt(Sequence& sequence, std::span<const PageId> pages) {
  Page* last = nullptr;
  for (size_t index = 0; index < pages.size(); ++index) {
    last = &pages_.at(key(sequence, static_cast<int64_t>(index), last));
    CALYREX_CHECK(last->page == pages[index], "page {} became {}", pages[index], last->page);
    pool_.retain(last->page);
    if (index < sequence.pages.size()) {
      pool_.release(sequence.pages[index]);
      sequence.pages[index] = last->page;
    } else {
      sequence.pages.push_back(last->page);
    }
  }
  sequence.indexed_pages = static_cast<int64_t>(pages.size());
  sequence.computed = sequence.indexed_pages * page_size_;
  sequence.reused = sequence.computed;
  ends_[sequence.id] = last;
}

void PrefixIndex::insert(Sequence& sequence) {
  if ((sequence.indexed_pages + 1) * page_size_ > sequence.computed) return;
  Page*& last = ends_[sequence.id];
  for (; (sequence.indexed_pages + 1) * page_size_ <= sequence.computed; ++sequence.indexed_pages) {
    PageId& own = sequence.pages[static_cast<size_t>(sequence.indexed_pages)];
    const auto [place, is_new] = pages_.try_emplace(key(sequence, sequence.indexed_pages, last));
    Page& page = place->second;
    if (is_new) {
      pool_.keep(own);
      page = {.page = own,
              .number = next_number_++,
              .parent = last,
              .use = uses_.insert(uses_.begin(), &place->first)};
    } else if (page.page != own) {
      pool_.retain(page.page);
      pool_.release(own);
      own = page.page;
    }
    last = &page;
  }
  touch(last);
}

void PrefixIndex::release(Sequence& sequence) {
  // In reverse, so that the pool hands them out in the old order again.
  for (auto page = sequence.pages.rbegin(); page != sequence.pages.rend(); ++page) pool_.release(*page);
  sequence.pages.clear();
  sequence.computed = 0;
  sequence.reused = 0;
  sequence.indexed_pages = 0;
  ends_.erase(sequence.id);
}

bool PrefixIndex::make_room(int64_t count) {
  // Whoever holds a page holds those before it, and they were used later: pages go from the end of a prefix.
  for (auto use = uses_.end(); pool_.num_free() < count && pool_.num_idle() > 0 && use != uses_.begin();) {
    --use;
    const auto found = pages_.find(**use);
    if (!pool_.is_idle(found->second.page)) continue;
    pool_.drop(found->second.page);
    use = uses_.erase(use);
    pages_.erase(found);
  }
  return pool_.num_free() >= count;
}

}  // namespace calyrex::infer
