#include "calyrex/infer/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "calyrex/base/error.h"
#include "calyrex/kernels/paged_attention.h"
#include "calyrex/model/kernel_args.h"

namespace calyrex::infer {
namespace {

/// Up to so many queries, reading the keys once a query costs less than gathering them.
constexpr int64_t kRowwiseQueries = 4;

template <typename Query, typename Cache>
void run_kernel(const PagedCache& cache, int64_t layer, const at::Tensor& q, std::span<const PageId> table,
                int64_t max_pages, std::span<const int64_t> lengths, at::Tensor& out) {
  const auto& [k_pages, v_pages] = cache.pages(layer);
  const PagedCache::Shape& shape = cache.shape();
  kernels::PagedAttentionArgs<Query, Cache> args;
  args.layout = {shape.num_kv_heads, shape.page_size, shape.head_dim};
  args.q = model::const_values<Query>(q);
  args.k_pages = model::const_values<Cache>(k_pages);
  args.v_pages = model::const_values<Cache>(v_pages);
  args.page_table = table.data();
  args.lengths = lengths.data();
  args.out = model::mutable_values<Query>(out);
  args.batch = static_cast<int64_t>(lengths.size());
  args.max_pages = max_pages;
  args.num_heads = q.size(1);
  args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  kernels::paged_attention(args);
}

/// Rows [count, heads, head_dim] as the library wants them: [1, heads, count, head_dim].
at::Tensor as_batch(const at::Tensor& rows) { return rows.transpose(0, 1).unsqueeze(0); }
at::Tensor as_rows(const at::Tensor& batch) { return batch.squeeze(0).transpose(0, 1); }

}  // namespace

RunClass classify(const QueryRun& run) {
  if (run.count <= kRowwiseQueries) return RunClass::kRowwise;
  // One segment of a plan: causal from key 0 on, or all of the visible keys.
  if (run.fresh_key >= 0 && (!run.causal || run.first_visible == 1)) return RunClass::kFresh;
  return RunClass::kCached;
}

PagedAttention::PagedAttention(PagedCache& cache, std::vector<QueryRun> runs,
                               const std::vector<int64_t>& slots, Method method)
    : cache_(cache),
      runs_(std::move(runs)),
      slots_(at::tensor(slots, at::kLong).to(cache.device())),
      method_(method) {
  CALYREX_CHECK(
      std::is_sorted(runs_.begin(), runs_.end(),
                     [](const QueryRun& a, const QueryRun& b) { return classify(a) < classify(b); }),
      "runs out of order");
  for (const QueryRun& run : runs_) {
    CALYREX_CHECK(run.count > 0 && run.first_visible > 0, "{} queries see {} keys", run.count,
                  run.first_visible);
    num_queries_ += run.count;
    if (classify(run) == RunClass::kRowwise) num_rowwise_ += run.count;
    if (classify(run) == RunClass::kCached) num_cached_ += run.count;
  }
  if (!cache.device().is_cpu() || cache.shape().head_dim % 8 != 0) method_ = Method::kPlain;
  if (method_ == Method::kPlain) return;
  plan_rowwise();
  plan_fresh(static_cast<int64_t>(slots.size()));
}

void PagedAttention::plan_rowwise() {
  const int64_t page_size = cache_.shape().page_size;
  for (const QueryRun& run : runs_) {
    if (classify(run) != RunClass::kRowwise) break;
    max_pages_ = std::max(max_pages_, (run.last_visible() + page_size - 1) / page_size);
  }
  for (const QueryRun& run : runs_) {
    if (classify(run) != RunClass::kRowwise) break;
    for (int64_t i = 0; i < run.count; ++i) {
      const int64_t visible = run.first_visible + (run.causal ? i : 0);
      const int64_t pages = (visible + page_size - 1) / page_size;
      page_table_.insert(page_table_.end(), run.pages.begin(), run.pages.begin() + pages);
      page_table_.resize(page_table_.size() + static_cast<size_t>(max_pages_ - pages), 0);
      lengths_.push_back(visible);
    }
  }
}

void PagedAttention::plan_fresh(int64_t num_keys) {
  model::AttentionPlan plan{
      .segments = {}, .num_queries = num_queries_ - num_rowwise_ - num_cached_, .num_keys = num_keys};
  int64_t query = 0;
  for (const QueryRun& run : runs_) {
    if (classify(run) != RunClass::kFresh) continue;
    plan.segments.push_back({.query_begin = query,
                             .query_end = query + run.count,
                             .key_begin = run.fresh_key,
                             .key_end = run.fresh_key + run.last_visible(),
                             .causal = run.causal});
    query += run.count;
  }
  if (plan.num_queries > 0) fresh_ = std::make_unique<model::PlanAttention>(std::move(plan));
}

void PagedAttention::attend_rowwise(int64_t layer, const at::Tensor& q, at::Tensor& out) const {
  const bool narrow_cache = cache_.dtype() == at::kBFloat16;
  const bool narrow_query = q.scalar_type() == at::kBFloat16;
  const auto kernel = !narrow_cache  ? &run_kernel<float, float>
                      : narrow_query ? &run_kernel<kernels::BFloat16, kernels::BFloat16>
                                     : &run_kernel<float, kernels::BFloat16>;
  kernel(cache_, layer, q, page_table_, max_pages_, lengths_, out);
}

/// Queries over gathered keys: the prefix that all of them see, and the causal square behind it.
at::Tensor PagedAttention::attend_cached(int64_t layer, const QueryRun& run, const at::Tensor& q) const {
  const auto [k, v] = cache_.gather(layer, run.pages, run.last_visible(), q.scalar_type());
  const at::Tensor queries = as_batch(q);
  if (!run.causal) {
    return as_rows(std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(queries, k, v)));
  }
  const int64_t prefix = run.first_visible - 1;
  const auto [own, own_lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      queries, k.narrow(2, prefix, run.count), v.narrow(2, prefix, run.count), /*dropout_p=*/0.0,
      /*is_causal=*/true);
  if (prefix == 0) return as_rows(own);
  const auto [before, before_lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      queries, k.narrow(2, 0, prefix), v.narrow(2, 0, prefix));
  // Each part is a mean under its own normaliser; their weights in the whole are sigmoids of the difference.
  const at::Tensor share = at::sigmoid(before_lse - own_lse).unsqueeze(-1).to(own.scalar_type());
  return as_rows(at::lerp(own, before, share));
}

/// The same by a dense mask; any device, any head size.
at::Tensor PagedAttention::attend_plain(int64_t layer, const QueryRun& run, const at::Tensor& q) const {
  const auto [k, v] = cache_.gather(layer, run.pages, run.last_visible(), at::kFloat);
  const int64_t group = q.size(1) / cache_.shape().num_kv_heads;
  const at::Tensor keys = k.squeeze(0).repeat_interleave(group, 0);  // [heads, keys, head_dim]
  const at::Tensor values = v.squeeze(0).repeat_interleave(group, 0);
  at::Tensor scores = at::matmul(q.to(at::kFloat).transpose(0, 1), keys.transpose(1, 2)) /
                      std::sqrt(static_cast<double>(q.size(2)));  // [heads, queries, keys]
  if (run.causal) {
    const at::Tensor visible = at::arange(run.first_visible, run.first_visible + run.count, slots_.options());
    const at::Tensor hidden =
        at::arange(run.last_visible(), slots_.options()).unsqueeze(0) >= visible.unsqueeze(1);
    scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }
  return at::matmul(at::softmax(scores, -1), values).transpose(0, 1).to(q.scalar_type());
}

at::Tensor PagedAttention::attend(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& v) {
  CALYREX_CHECK(q.size(0) == num_queries_, "layer {}: {} queries for runs of {}", layer, q.size(0),
                num_queries_);
  if (slots_.size(0) > 0) cache_.store(layer, k, v, slots_);
  const int64_t num_fresh = num_queries_ - num_rowwise_ - num_cached_;
  if (method_ == Method::kKernels && num_fresh == num_queries_ && num_fresh > 0)
    return fresh_->attend(layer, q, k, v);

  at::Tensor out = at::empty(q.sizes(), q.options());
  int64_t query = 0;
  if (method_ == Method::kKernels && num_rowwise_ > 0) {
    at::Tensor rows = out.narrow(0, 0, num_rowwise_);
    attend_rowwise(layer, q.narrow(0, 0, num_rowwise_).contiguous(), rows);
  }
  for (const QueryRun& run : runs_) {
    const at::Tensor queries = q.narrow(0, query, run.count);
    if (method_ == Method::kPlain) {
      out.narrow(0, query, run.count).copy_(attend_plain(layer, run, queries));
    } else if (classify(run) == RunClass::kCached) {
      out.narrow(0, query, run.count).copy_(attend_cached(layer, run, queries));
    }
    query += run.count;
  }
  if (method_ == Method::kKernels && num_fresh > 0) {
    const int64_t begin = num_queries_ - num_fresh;
    out.narrow(0, begin, num_fresh).copy_(fresh_->attend(layer, q.narrow(0, begin, num_fresh), k, v));
  }
  return out;
}

}  // namespace calyrex::infer
