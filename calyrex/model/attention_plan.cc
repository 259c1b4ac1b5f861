#include "calyrex/model/attention_plan.h"

#include <algorithm>
#include <iterator>

#include <ATen/ATen.h>

namespace calyrex::model {
namespace {

/// Builds a CalPlan sequence by sequence. Span tokens attend to the gathered keys, causal; the tokens after
/// the n-th span attend to all keys of the first n spans.
class CalPlanBuilder {
 public:
  CalPlanBuilder(bool exclusive, bool shares_rows) : exclusive_(exclusive), shares_rows_(shares_rows) {}

  void add(const RaggedBatch::Sequence& sequence) {
    if (sequence.system_spans.empty()) return;
    key_base_ = num_named_;
    for (const TokenSpan& span : sequence.system_spans) {
      for (int64_t token = span.begin; token < span.end; ++token) name_key(sequence, token);
    }
    add_span_queries(sequence);
    int64_t seen_keys = 0;
    for (size_t n = 0; n < sequence.system_spans.size(); ++n) {
      const TokenSpan& span = sequence.system_spans[n];
      seen_keys += span.length();
      const int64_t gap_end =
          n + 1 < sequence.system_spans.size() ? sequence.system_spans[n + 1].begin : sequence.length;
      const auto query_begin = num_queries();
      for (int64_t token = std::max(span.end, sequence.num_shared()); token < gap_end; ++token) {
        plan_.query_rows.push_back(sequence.row(token));
      }
      add_segment({.query_begin = query_begin, .key_end = key_base_ + seen_keys});
    }
  }

  CalPlan take() {
    plan_.attention.num_queries = num_queries();
    plan_.attention.num_keys = static_cast<int64_t>(plan_.key_rows.size());
    return std::move(plan_);
  }

 private:
  int64_t num_queries() const { return static_cast<int64_t>(plan_.query_rows.size()); }

  void name_key(const RaggedBatch::Sequence& sequence, int64_t token) {
    ++num_named_;
    const int64_t row = sequence.row(token);
    if (token >= sequence.num_shared()) plan_.key_rows.push_back(row);
    if (!shares_rows_) return;
    const auto place = std::lower_bound(plan_.key_rows.begin(), plan_.key_rows.end(), row);
    plan_.attention.key_rows.push_back(place - plan_.key_rows.begin());
  }

  /// Exclusive: the n-th span token sees the n - 1 before it, so the first drops out and one key less is
  /// needed.
  void add_span_queries(const RaggedBatch::Sequence& sequence) {
    int64_t dropped = exclusive_ ? 1 : 0, shared = 0;
    const int64_t key_end = num_named_ - dropped;
    const int64_t before = num_queries();
    for (const TokenSpan& span : sequence.system_spans) {
      for (int64_t token = span.begin; token < span.end; ++token) {
        if (dropped > 0) {
          --dropped;
        } else if (token < sequence.num_shared()) {
          ++shared;
        } else {
          plan_.query_rows.push_back(sequence.row(token));
        }
      }
    }
    if (num_queries() == before) return;
    add_segment({.query_begin = before - shared, .key_end = key_end, .causal = true, .query_skip = shared});
  }

  void add_segment(AttentionSegment segment) {
    segment.query_end = num_queries();
    segment.key_begin = key_base_;
    if (segment.query_begin < segment.query_end) plan_.attention.segments.push_back(segment);
  }

  bool exclusive_, shares_rows_;
  CalPlan plan_;
  int64_t num_named_ = 0;  // keys that segments can name
  int64_t key_base_ = 0;   // the first of this sequence
};

}  // namespace

bool AttentionPlan::covers_queries() const {
  int64_t covered = 0;
  for (const AttentionSegment& segment : segments) {
    covered += segment.query_end - segment.query_begin - segment.query_skip;
  }
  return covered == num_queries;
}

AttentionPlan self_attention_plan(const RaggedBatch& batch) {
  AttentionPlan plan;
  plan.num_queries = plan.num_keys = batch.num_rows();
  const bool shares_rows = batch.shares_rows();
  int64_t key = 0;
  for (const RaggedBatch::Sequence& sequence : batch.sequences) {
    if (sequence.num_own() == 0) continue;
    plan.segments.push_back({.query_begin = sequence.begin - sequence.num_shared(),
                             .query_end = sequence.end(),
                             .key_begin = key,
                             .key_end = key + sequence.length,
                             .causal = true,
                             .query_skip = sequence.num_shared()});
    key += sequence.length;
    for (int64_t token = 0; shares_rows && token < sequence.length; ++token) {
      plan.key_rows.push_back(sequence.row(token));
    }
  }
  return plan;
}

CalPlan cal_plan(const RaggedBatch& batch, weights::SelfInclusion self_inclusion) {
  CalPlanBuilder builder(self_inclusion == weights::SelfInclusion::kExclusive, batch.shares_rows());
  for (const RaggedBatch::Sequence& sequence : batch.sequences) builder.add(sequence);
  return builder.take();
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
    for (int64_t query = segment.query_begin + segment.query_skip; query < segment.query_end; ++query) {
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
  narrowed.plan.attention.key_rows = plan.attention.key_rows;
  return narrowed;
}

}  // namespace calyrex::model
