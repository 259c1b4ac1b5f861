// Attention of some query rows to cached keys: decoding, chunks behind a cached prefix, and spans.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/infer/paged_cache.h"
#include "calyrex/model/attention.h"

namespace calyrex::infer {

/// Consecutive queries of one sequence.
struct QueryRun {
  int64_t count = 0;
  std::span<const PageId> pages;  // of the sequence's keys; owned by others
  int64_t first_visible =
      0;                   // keys the first query sees, at least 1; they count from the sequence's first key
  bool causal = false;     // each next query sees one more
  int64_t fresh_key = -1;  // the row of this pass that holds key 0, when it computes all that the run sees

  /// Keys that the last query sees.
  int64_t last_visible() const { return first_visible + (causal ? count - 1 : 0); }
};

/// The way a run is computed; runs must come in this order.
enum class RunClass {
  kRowwise,  // few queries: the paged kernel, row by row
  kCached,   // behind a prefix: two fused calls over gathered keys, merged by their log-sum-exps
  kFresh,    // all keys are of this pass: as in a whole-batch forward
};
RunClass classify(const QueryRun& run);

/// Stores this pass's keys and values, then answers all runs. On other devices than the CPU, and for head
/// sizes the kernels lack, everything goes over gathered keys by plain ops.
class PagedAttention final : public model::Attention {
 public:
  enum class Method { kKernels, kPlain };
  /// Runs cover the queries in order, sorted by class. `slots` [rows of k]: where each key goes.
  PagedAttention(PagedCache& cache, std::vector<QueryRun> runs, const std::vector<int64_t>& slots,
                 Method method);

  at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override;

 private:
  void plan_rowwise();
  void plan_fresh(int64_t num_keys);
  void attend_rowwise(int64_t layer, const at::Tensor& q, at::Tensor& out) const;
  at::Tensor attend_cached(int64_t layer, const QueryRun& run, const at::Tensor& q) const;
  at::Tensor attend_plain(int64_t layer, const QueryRun& run, const at::Tensor& q) const;

  PagedCache& cache_;
  std::vector<QueryRun> runs_;
  at::Tensor slots_;  // [rows of k] int64
  Method method_;
  int64_t num_queries_ = 0;
  int64_t num_rowwise_ = 0;
  int64_t num_cached_ = 0;
  std::vector<PageId> page_table_;  // [num_rowwise_, max_pages_]
  std::vector<int64_t> lengths_;    // [num_rowwise_]
  int64_t max_pages_ = 0;
  std::unique_ptr<model::PlanAttention> fresh_;
};

}  // namespace calyrex::infer
