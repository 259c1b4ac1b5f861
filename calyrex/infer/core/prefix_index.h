// Which pages of the cache hold which tokens, so that a sequence can take over what an earlier one computed.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "calyrex/infer/core/page_pool.h"
#include "calyrex/infer/core/sequence.h"

namespace calyrex::infer {

/// Full pages by what their keys and values depend on: the tokens up to the page's end, and for sequences
/// with an adapter that adapter, its scale and the spans up to there. So a page is never shared between the
/// base and an adapter, between two adapters, or between strengths. Pages that no sequence holds any more
/// stay until room is wanted; then those used longest ago go first. Thread-compatible.
class PrefixIndex {
 public:
  PrefixIndex(PagePool& pool, int64_t page_size) : pool_(pool), page_size_(page_size) {}

  /// Pages of the longest prefix of a sequence that is there, without its last token; nobody's yet.
  std::vector<PageId> find(const Sequence& sequence);
  /// The sequence takes over `pages`, the first of those that find() just gave, for its own first ones.
  void adopt(Sequence& sequence, std::span<const PageId> pages);
  /// Takes in the full pages among the computed tokens. A page whose content is there already is replaced by
  /// the one that is there.
  void insert(Sequence& sequence);
  /// The sequence gives its pages back, and starts anew if it ever runs again.
  void release(Sequence& sequence);
  /// Frees unused pages until `count` are free; false when there are not so many.
  bool make_room(int64_t count);

 private:
  struct Key {
    uint64_t parent = 0;  // the page before, 0 = none
    uint64_t adapter = 0;
    double scale = 1.0;
    std::vector<TokenId> tokens;  // of this page
    std::vector<int64_t> spans;   // begin and end of their parts in this page

    auto operator<=>(const Key&) const = default;
  };
  struct Page {
    PageId page = 0;
    uint64_t number = 0;  // never used again
    Page* parent = nullptr;
    std::list<const Key*>::iterator use;
  };

  Key key(const Sequence& sequence, int64_t index, const Page* parent) const;
  /// Marks a page and those before it as just used, itself first: what comes later is always older.
  void touch(Page* page);

  PagePool& pool_;
  int64_t page_size_;
  std::map<Key, Page> pages_;
  std::list<const Key*> uses_;           // the latest first
  std::map<lm::RequestId, Page*> ends_;  // of running sequences, the last page that is in the index
  uint64_t next_number_ = 1;
};

}  // namespace calyrex::infer
