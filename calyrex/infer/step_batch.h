// One engine step as a batch: which rows, which positions, who sees which keys.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/infer/core/executor.h"
#include "calyrex/infer/paged_attention.h"
#include "calyrex/infer/span_store.h"
#include "calyrex/model/adapter.h"
#include "calyrex/model/decoder.h"

namespace calyrex::infer {

/// An adapter in the engine: its weights, and the spans of the sequences that use it (CAL only).
struct LoadedBlocks final : ServedAdapter {
  std::shared_ptr<const model::Adapter> adapter;
  std::unique_ptr<SpanStore> spans;

  int64_t num_parameters() const override { return adapter->num_parameters(); }
};

/// Rows of all items, laid out so that each attention finds its runs in the order it wants. Reserves span
/// pages. Lives as long as the forward pass that uses its context.
class StepBatch {
 public:
  StepBatch(std::span<const StepItem> items, PagedCache& cache, PagedAttention::Method method);

  const at::Tensor& token_ids() const { return token_ids_; }
  const model::ForwardContext& context() const { return context_; }
  /// The row of each item's last token, in the order of the items, for those that complete their sequence.
  const std::vector<int64_t>& sampled_rows() const { return sampled_rows_; }

 private:
  struct PlacedItem {
    StepItem item;
    int64_t row = 0;
  };

  void place(std::span<const StepItem> items);
  void add_self_attention(PagedCache& cache, PagedAttention::Method method);
  void add_groups(PagedAttention::Method method);
  model::AdapterGroup make_group(std::span<const PlacedItem* const> items, PagedAttention::Method method);

  std::vector<PlacedItem> placed_;  // in the order of the rows
  std::vector<int64_t> positions_;
  at::Tensor token_ids_;
  at::Device device_;
  std::vector<int64_t> sampled_rows_;
  std::vector<std::unique_ptr<PagedAttention>> attentions_;
  model::ForwardContext context_;
};

/// Queries of a chunk that see span tokens, as runs over the sequence's span keys (numbered through all
/// spans).
struct SpanRun {
  int64_t begin = 0;  // position of the first query in the sequence
  int64_t count = 0;
  int64_t first_visible = 0;
  bool causal = false;

  bool operator==(const SpanRun&) const = default;
};

/// The part of cal_plan() that concerns positions [begin, end) of a sequence: a query sees the span tokens up
/// to itself (exclusive: before itself). Positions that see nothing are in no run.
std::vector<SpanRun> span_runs(const TokenSpans& spans, int64_t begin, int64_t end,
                               weights::SelfInclusion self_inclusion);

}  // namespace calyrex::infer
