// One engine step for QuantRunner: which rows, which positions, who sees which keys. Plain arrays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "calyrex/infer/core/executor.h"
#include "calyrex/infer/quant_adapter.h"
#include "calyrex/kernels/tiled_attention.h"

namespace calyrex::infer {

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
  RowSet rows;                                 // all
  RowSet query_rows;                           // that see a span token
  RowSet key_rows;                             // of span tokens, whose keys are computed in this step
  std::vector<kernels::AttentionRun> queries;  // of query_rows, CAL only
  std::vector<int64_t> key_slots;
};

struct QuantBatch {
  QuantBatch(std::span<const StepItem> items, int64_t page_size);

  int64_t size() const { return static_cast<int64_t>(token_ids.size()); }

  std::vector<TokenId> token_ids;
  std::vector<int64_t> positions;
  std::vector<int64_t> slots;                  // of each row's key
  std::vector<kernels::AttentionRun> queries;  // of all rows
  std::vector<int64_t> sampled_rows;           // the last row of each item that completes its sequence
  std::vector<QuantGroup> groups;              // with a scale that is not 0
};

}  // namespace calyrex::infer
