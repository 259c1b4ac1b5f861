// Which query sees which key, as segments of rows instead of a mask (docs/architecture.md, "Attention
// plans").
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/model/ragged_batch.h"
#include "calyrex/weights/adapter_folder.h"

namespace calyrex::model {

/// Queries [query_begin, query_end) attend to keys [key_begin, key_end). Causal segments have as many keys as
/// queries: the n-th query sees the first n + 1 keys. The first `query_skip` queries only fill the causal
/// square where a sequence's first tokens are rows of another one: they may be any rows, and get no result.
struct AttentionSegment {
  int64_t query_begin = 0;
  int64_t query_end = 0;
  int64_t key_begin = 0;
  int64_t key_end = 0;
  bool causal = false;
  int64_t query_skip = 0;

  bool operator==(const AttentionSegment&) const = default;
};

/// A query row gets its result from one segment; zeros, where no segment names it.
struct AttentionPlan {
  std::vector<AttentionSegment> segments;
  int64_t num_queries = 0;
  int64_t num_keys = 0;  // rows of keys and values
  /// Where sequences share rows: the row of each key that segments name. Empty: key n is row n.
  std::vector<int64_t> key_rows;

  /// Whether each query is one of a segment.
  bool covers_queries() const;
  int64_t num_named_keys() const {
    return key_rows.empty() ? num_keys : static_cast<int64_t>(key_rows.size());
  }
};

/// One causal segment a sequence; queries and keys are the batch rows.
AttentionPlan self_attention_plan(const RaggedBatch& batch);

/// Cross-attention to the system spans: query i sees key j if j lies in a span and j <= i (exclusive: j < i).
/// Rows that see nothing are not in `query_rows`; the plan's query and key numbers index query_rows and
/// key_rows.
struct CalPlan {
  AttentionPlan attention;
  std::vector<int64_t> query_rows;  // batch rows that see a span token, grouped by segment
  std::vector<int64_t> key_rows;    // batch rows of span tokens, ascending

  bool empty() const { return query_rows.empty(); }
};

CalPlan cal_plan(const RaggedBatch& batch, weights::SelfInclusion self_inclusion);

/// What the last layer and the block after it must give when only `read` rows of their result are used: those
/// rows and the spans', whose keys and values the block takes. Row numbers of `plan` index `rows`.
struct NarrowedPlan {
  std::vector<int64_t> rows;  // batch rows, ascending
  std::vector<int64_t> read;  // the rows asked for, as indices of `rows`
  CalPlan plan;               // queries are read rows only
};

/// `read` holds ascending batch rows. Nothing when a read row lies inside a span: its causal segment cannot
/// be taken apart.
std::optional<NarrowedPlan> narrow_plan(const CalPlan& plan, const std::vector<int64_t>& read);

}  // namespace calyrex::model
