// A sequence as scheduler and executor see it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "calyrex/base/token.h"
#include "calyrex/infer/core/page_pool.h"
#include "calyrex/lm/language_model.h"

namespace calyrex::infer {

/// An adapter as the executor holds it.
class ServedAdapter {
 public:
  ServedAdapter();
  virtual ~ServedAdapter() = default;
  virtual int64_t num_parameters() const = 0;
  /// Not 0, and of no other adapter that this process ever loads.
  uint64_t number() const { return number_; }

 private:
  uint64_t number_;
};

struct Sequence {
  lm::RequestId id = 0;
  std::vector<TokenId> token_ids;  // prompt, and what was generated
  TokenSpans system_spans;
  std::shared_ptr<const ServedAdapter> adapter;  // null = the base model
  double scale = 1.0;
  int64_t computed = 0;       // leading tokens whose keys and values are in the cache
  std::vector<PageId> pages;  // of the cache, in order
  int64_t indexed_pages = 0;  // leading pages that others may share
  int64_t reused = 0;         // leading tokens that were taken over when it began

  int64_t length() const { return static_cast<int64_t>(token_ids.size()); }
};

}  // namespace calyrex::infer
