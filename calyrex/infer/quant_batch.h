// One engine step for QuantRunner: which rows, which positions, who sees which keys. Plain arrays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "calyrex/infer/core/executor.h"
#include "calyrex/infer/quant_adapter.h"

namespace calyrex::infer {

/// Queries with the leading keys of a sequence that each sees.
class PagedQueries {
 public:
  /// Of `pages`, the first `visible` keys.
  void add(std::span<const PageId> pages, int64_t visible, int64_t page_size);
  /// Lays out the table; call once after the last add().
  void finish();

  int64_t size() const { return static_cast<int64_t>(lengths_.size()); }
  const std::vector<int64_t>& lengths() const { return lengths_; }
  /// [size, max_pages]
  const PageId* page_table() const { return page_table_.data(); }
  int64_t max_pages() const { return max_pages_; }

 private:
  std::vector<std::span<const PageId>> pages_;
  std::vector<int64_t> lengths_;
  std::vector<PageId> page_table_;
  int64_t max_pages_ = 0;
};

/// Rows of the batch, ascending.
struct RowSet {
  std::vector<int64_t> rows;

  int64_t size() const { return static_cast<int64_t>(rows.size()); }
  bool empty() const { return rows.empty(); }
  /// One after the other, so that results can be added in place.
  bool contiguous() const { return empty() || rows.back() - rows.front() + 1 == size(); }
};

/// The rows of one adapter and scale.
struct QuantGroup {
  const QuantAdapter* adapter = nullptr;
  float scale = 1.0f;
  RowSet rows;        // all
  RowSet query_rows;  // that see a span token
  RowSet key_rows;    // of span tokens, whose keys are computed in this step
  PagedQueries queries;
  std::vector<int64_t> query_positions, key_positions, key_slots;
};

struct QuantBatch {
  QuantBatch(std::span<const StepItem> items, int64_t page_size);

  int64_t size() const { return static_cast<int64_t>(token_ids.size()); }

  std::vector<TokenId> token_ids;
  std::vector<int64_t> positions;
  std::vector<int64_t> slots;  // of each row's key
  PagedQueries queries;
  std::vector<int64_t> sampled_rows;  // the last row of each item that completes its sequence
  std::vector<QuantGroup> groups;     // with a scale that is not 0
};

}  // namespace calyrex::infer
