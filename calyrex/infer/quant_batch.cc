#include "calyrex/infer/quant_batch.h"

#include <algorithm>

#include "calyrex/base/error.h"
#include "calyrex/infer/step_batch.h"

namespace calyrex::infer {
namespace {

/// The group of a sequence's adapter and scale; null for the base model.
QuantGroup* find_group(const Sequence& sequence, std::vector<QuantGroup>& groups) {
  if (sequence.adapter == nullptr || sequence.scale == 0.0) return nullptr;
  const auto* adapter = static_cast<const QuantAdapter*>(sequence.adapter.get());
  const auto scale = static_cast<float>(sequence.scale);
  const auto found = std::ranges::find_if(
      groups, [&](const QuantGroup& group) { return group.adapter == adapter && group.scale == scale; });
  if (found != groups.end()) return &*found;
  groups.push_back({.adapter = adapter, .scale = scale});
  return &groups.back();
}

/// Adds an item whose first row is `row`.
void add_to_group(const StepItem& item, int64_t row, QuantGroup& group) {
  const Sequence& sequence = *item.sequence;
  for (int64_t i = 0; i < item.count; ++i) group.rows.rows.push_back(row + i);
  if (sequence.system_spans.empty()) return;
  const int64_t row_of_first = row - item.begin;
  std::span<const PageId> pages;
  int64_t page_size = 1;
  if (group.adapter->spans != nullptr) {
    SpanStore& spans = *group.adapter->spans;
    spans.reserve(sequence);
    pages = spans.pages(sequence);
    page_size = spans.cache().shape().page_size;
    int64_t index = 0;
    for (const TokenSpan& span : sequence.system_spans) {
      for (int64_t position = span.begin; position < span.end; ++position, ++index) {
        if (position < item.begin || position >= item.begin + item.count) continue;
        group.key_rows.rows.push_back(row_of_first + position);
        group.key_slots.push_back(cache_slot(pages, page_size, index));
      }
    }
  }
  const weights::SelfInclusion inclusion = group.adapter->config().cal.self_inclusion;
  for (const SpanRun& run :
       span_runs(sequence.system_spans, item.begin, item.begin + item.count, inclusion)) {
    for (int64_t i = 0; i < run.count; ++i) group.query_rows.rows.push_back(row_of_first + run.begin + i);
    if (group.adapter->spans == nullptr) continue;
    group.queries.push_back(
        {.count = run.count, .pages = pages, .first_visible = run.first_visible, .causal = run.causal});
  }
}

}  // namespace

QuantBatch::QuantBatch(std::span<const StepItem> items, int64_t page_size) {
  for (const StepItem& item : items) {
    const Sequence& sequence = *item.sequence;
    const int64_t row = size();
    for (int64_t position = item.begin; position < item.begin + item.count; ++position) {
      token_ids.push_back(sequence.token_ids[static_cast<size_t>(position)]);
      positions.push_back(position);
      slots.push_back(cache_slot(sequence.pages, page_size, position));
    }
    queries.push_back(
        {.count = item.count, .pages = sequence.pages, .first_visible = item.begin + 1, .causal = true});
    if (item.completes()) sampled_rows.push_back(size() - 1);
    if (QuantGroup* group = find_group(sequence, groups)) add_to_group(item, row, *group);
  }
}

}  // namespace calyrex::infer
