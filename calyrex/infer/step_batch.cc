#include "calyrex/infer/step_batch.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "calyrex/base/error.h"

namespace calyrex::infer {
namespace {

at::Tensor index_tensor(const std::vector<int64_t>& values, at::Device device) {
  return at::tensor(values, at::kLong).to(device);
}

QueryRun self_run(const StepItem& item) {
  return {.count = item.count,
          .pages = item.sequence->pages,
          .first_visible = item.begin + 1,
          .causal = true,
          .fresh_key = item.begin == 0 ? 0 : -1};
}

const LoadedBlocks* blocks_of(const Sequence& sequence) {
  return static_cast<const LoadedBlocks*>(sequence.adapter.get());
}

/// A run of queries with the batch rows it comes from.
struct PlacedRun {
  QueryRun run;
  int64_t row = 0;
  int64_t position = 0;
};

}  // namespace

std::vector<SpanRun> span_runs(const TokenSpans& spans, int64_t begin, int64_t end,
                               weights::SelfInclusion self_inclusion) {
  const bool exclusive = self_inclusion == weights::SelfInclusion::kExclusive;
  std::vector<SpanRun> runs;
  const auto add = [&](int64_t from, int64_t to, int64_t first_visible, bool causal) {
    if (causal && first_visible == 0) {
      ++from;
      first_visible = 1;
    }
    if (from < to && first_visible > 0) {
      runs.push_back({.begin = from, .count = to - from, .first_visible = first_visible, .causal = causal});
    }
  };
  int64_t seen = 0;  // span tokens before `position`
  int64_t position = begin;
  for (const TokenSpan& span : spans) {
    add(position, std::min(span.begin, end), seen, /*causal=*/false);
    position = std::max(position, span.begin);
    const int64_t to = std::min(span.end, end);
    const int64_t before = seen + std::max<int64_t>(0, position - span.begin);
    if (position < to) add(position, to, before + (exclusive ? 0 : 1), /*causal=*/true);
    position = std::max(position, to);
    seen += span.length();
    if (span.end >= end) return runs;
  }
  add(position, end, seen, /*causal=*/false);
  return runs;
}

StepBatch::StepBatch(std::span<const StepItem> items, PagedCache& cache, PagedAttention::Method method)
    : device_(cache.device()) {
  place(items);
  add_self_attention(cache, method);
  add_groups(method);
}

void StepBatch::place(std::span<const StepItem> items) {
  for (const StepItem& item : items) placed_.push_back({.item = item});
  std::stable_sort(placed_.begin(), placed_.end(), [](const PlacedItem& a, const PlacedItem& b) {
    return classify(self_run(a.item)) < classify(self_run(b.item));
  });
  std::vector<int64_t> ids;
  for (PlacedItem& placed : placed_) {
    placed.row = static_cast<int64_t>(ids.size());
    const StepItem& item = placed.item;
    for (int64_t i = item.begin; i < item.begin + item.count; ++i) {
      ids.push_back(item.sequence->token_ids[static_cast<size_t>(i)]);
      positions_.push_back(i);
    }
  }
  token_ids_ = index_tensor(ids, device_);
  context_.positions = index_tensor(positions_, device_);
  for (const StepItem& item : items) {
    if (!item.completes()) continue;
    const auto found = std::find_if(placed_.begin(), placed_.end(), [&](const PlacedItem& placed) {
      return placed.item.sequence == item.sequence;
    });
    sampled_rows_.push_back(found->row + item.count - 1);
  }
}

void StepBatch::add_self_attention(PagedCache& cache, PagedAttention::Method method) {
  std::vector<QueryRun> runs;
  std::vector<int64_t> slots;
  for (const PlacedItem& placed : placed_) {
    const StepItem& item = placed.item;
    QueryRun run = self_run(item);
    if (run.fresh_key >= 0) run.fresh_key = placed.row;
    runs.push_back(run);
    for (int64_t i = item.begin; i < item.begin + item.count; ++i) {
      slots.push_back(cache_slot(item.sequence->pages, cache.shape().page_size, i));
    }
  }
  attentions_.push_back(std::make_unique<PagedAttention>(cache, std::move(runs), slots, method));
  context_.self_attention = attentions_.back().get();
}

void StepBatch::add_groups(PagedAttention::Method method) {
  std::vector<std::vector<const PlacedItem*>> groups;
  for (const PlacedItem& placed : placed_) {
    const Sequence& sequence = *placed.item.sequence;
    if (sequence.adapter == nullptr) continue;
    const auto same = [&](const std::vector<const PlacedItem*>& group) {
      const Sequence& other = *group.front()->item.sequence;
      return other.adapter == sequence.adapter && other.scale == sequence.scale;
    };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    (found == groups.end() ? groups.emplace_back() : *found).push_back(&placed);
  }
  for (const auto& group : groups) context_.adapters.push_back(make_group(group, method));
}

model::AdapterGroup StepBatch::make_group(std::span<const PlacedItem* const> items,
                                          PagedAttention::Method method) {
  const Sequence& first = *items.front()->item.sequence;
  const LoadedBlocks& blocks = *blocks_of(first);
  const weights::SelfInclusion inclusion = blocks.adapter->config().cal.self_inclusion;
  std::vector<int64_t> rows, key_rows, key_positions, slots;
  std::vector<PlacedRun> runs;
  for (const PlacedItem* placed : items) {
    const StepItem& item = placed->item;
    const Sequence& sequence = *item.sequence;
    for (int64_t i = 0; i < item.count; ++i) rows.push_back(placed->row + i);
    if (sequence.system_spans.empty()) continue;
    std::span<const PageId> pages;
    int64_t fresh_key = -1;
    if (blocks.spans != nullptr) {
      blocks.spans->reserve(sequence);
      pages = blocks.spans->pages(sequence);
      if (item.begin <= sequence.system_spans.front().begin)
        fresh_key = static_cast<int64_t>(key_rows.size());
      int64_t index = 0;
      for (const TokenSpan& span : sequence.system_spans) {
        for (int64_t position = span.begin; position < span.end; ++position, ++index) {
          if (position < item.begin || position >= item.begin + item.count) continue;
          key_rows.push_back(placed->row + position - item.begin);
          key_positions.push_back(position);
          slots.push_back(cache_slot(pages, blocks.spans->cache().shape().page_size, index));
        }
      }
    }
    for (const SpanRun& run :
         span_runs(sequence.system_spans, item.begin, item.begin + item.count, inclusion)) {
      runs.push_back({.run = {.count = run.count,
                              .pages = pages,
                              .first_visible = run.first_visible,
                              .causal = run.causal,
                              .fresh_key = fresh_key},
                      .row = placed->row + run.begin - item.begin,
                      .position = run.begin});
    }
  }
  std::stable_sort(runs.begin(), runs.end(),
                   [](const PlacedRun& a, const PlacedRun& b) { return classify(a.run) < classify(b.run); });
  std::vector<QueryRun> query_runs;
  std::vector<int64_t> query_rows, query_positions;
  for (const PlacedRun& placed : runs) {
    query_runs.push_back(placed.run);
    for (int64_t i = 0; i < placed.run.count; ++i) {
      query_rows.push_back(placed.row + i);
      query_positions.push_back(placed.position + i);
    }
  }
  model::AdapterGroup group{.adapter = blocks.adapter.get(), .scale = first.scale};
  if (rows.size() < positions_.size()) group.rows = index_tensor(rows, device_);
  // Span keys must be computed even in a pass where nobody sees them yet: then the queries are an empty list.
  if (!query_rows.empty() || !key_rows.empty()) {
    group.query_rows = index_tensor(query_rows, device_);
    group.query_positions = index_tensor(query_positions, device_);
  }
  if (!key_rows.empty()) {
    group.key_rows = index_tensor(key_rows, device_);
    group.key_positions = index_tensor(key_positions, device_);
  }
  if (blocks.spans != nullptr && group.query_rows.defined()) {
    attentions_.push_back(
        std::make_unique<PagedAttention>(blocks.spans->cache(), std::move(query_runs), slots, method));
    group.attention = attentions_.back().get();
  }
  return group;
}

}  // namespace calyrex::infer
