#include "calyrex/model/attention_plan.h"

#include <algorithm>
#include <iterator>

#include <ATen/ATen.h>

namespace calyrex::model {
namespace {

/// Adds one sequence's cross-attention. Span tokens attend to the gathered keys, causal; the tokens after the
/// n-th span attend to all keys of the first n spans.
void add_sequence(const RaggedBatch::Sequence& sequence, bool exclusive, CalPlan& plan) {
  if (sequence.system_spans.empty()) return;
  const int64_t key_base = static_cast<int64_t>(plan.key_rows.size());
  for (const TokenSpan& span : sequence.system_spans) {
    for (int64_t token = span.begin; token < span.end; ++token)
      plan.key_rows.push_back(sequence.begin + token);
  }
  const int64_t num_keys = static_cast<int64_t>(plan.key_rows.size()) - key_base;

  const auto add_segment = [&](int64_t query_begin, int64_t key_count, bool causal) {
    const auto query_end = static_cast<int64_t>(plan.query_rows.size());
    if (query_end == query_begin) return;
    plan.attention.segments.push_back({.query_begin = query_begin,
                                       .query_end = query_end,
                                       .key_begin = key_base,
                                       .key_end = key_base + key_count,
                                       .causal = causal});
  };

  // Exclusive: the n-th span token sees the n - 1 before it, so the first drops out and one key less is
  // needed.
  const int64_t skipped = exclusive ? 1 : 0;
  int64_t query_begin = static_cast<int64_t>(plan.query_rows.size());
  for (int64_t n = skipped; n < num_keys; ++n) {
    plan.query_rows.push_back(plan.key_rows[static_cast<size_t>(key_base + n)]);
  }
  add_segment(query_begin, num_keys - skipped, /*causal=*/true);

  int64_t seen_keys = 0;
  for (size_t n = 0; n < sequence.system_spans.size(); ++n) {
    const TokenSpan& span = sequence.system_spans[n];
    seen_keys += span.length();
    const int64_t gap_end =
        n + 1 < sequence.system_spans.size() ? sequence.system_spans[n + 1].begin : sequence.length;
    query_begin = static_cast<int64_t>(plan.query_rows.size());
    for (int64_t token = span.end; token < gap_end; ++token)
      plan.query_rows.push_back(sequence.begin + token);
    add_segment(query_begin, seen_keys, /*causal=*/false);
  }
}

}  // namespace

AttentionPlan self_attention_plan(const RaggedBatch& batch) {
  AttentionPlan plan;
  plan.num_queries = plan.num_keys = batch.num_tokens();
  for (const RaggedBatch::Sequence& sequence : batch.sequences) {
    if (sequence.length == 0) continue;
    const int64_t end = sequence.begin + sequence.length;
    plan.segments.push_back({.query_begin = sequence.begin,
                             .query_end = end,
                             .key_begin = sequence.begin,
                             .key_end = end,
                             .causal = true});
  }
  return plan;
}

CalPlan cal_plan(const RaggedBatch& batch, weights::SelfInclusion self_inclusion) {
  CalPlan plan;
  for (const RaggedBatch::Sequence& sequence : batch.sequences) {
    add_sequence(sequence, self_inclusion == weights::SelfInclusion::kExclusive, plan);
  }
  plan.attention.num_queries = static_cast<int64_t>(plan.query_rows.size());
  plan.attention.num_keys = static_cast<int64_t>(plan.key_rows.size());
  return plan;
}

std::optional<NarrowedPlan> narrow_plan(const CalPlan& plan, const std::vector<int64_t>& read) {
  NarrowedPlan narrowed;
  std::set_union(read.begin(), read.end(), plan.key_rows.begin(), plan.key_rows.end(),
                 std::back_inserter(narrowed.rows));
  const auto index_of = [&](int64_t row) {
    return std::lower_bound(narrowed.rows.begin(), narrowed.rows.end(), row) - narrowed.rows.begin();
  };
  for (const int64_t row : read) narrowed.read.push_back(index_of(row));
  for (const int64_t row : plan.key_rows) narrowed.plan.key_rows.push_back(index_of(row));

  std::vector<int64_t>& queries = narrowed.plan.query_rows;
  for (AttentionSegment segment : plan.attention.segments) {
    const auto query_begin = static_cast<int64_t>(queries.size());
    for (int64_t query = segment.query_begin; query < segment.query_end; ++query) {
      const int64_t row = plan.query_rows[static_cast<size_t>(query)];
      if (std::binary_search(read.begin(), read.end(), row)) queries.push_back(index_of(row));
    }
    segment.query_begin = query_begin;
    segment.query_end = static_cast<int64_t>(queries.size());
    if (segment.query_end == segment.query_begin) continue;
    if (segment.causal) return std::nullopt;
    narrowed.plan.attention.segments.push_back(segment);
  }
  narrowed.plan.attention.num_queries = static_cast<int64_t>(queries.size());
  narrowed.plan.attention.num_keys = plan.attention.num_keys;
  return narrowed;
}

}  // namespace calyrex::model
