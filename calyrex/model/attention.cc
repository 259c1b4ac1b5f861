#include "calyrex/model/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "calyrex/base/error.h"
#include "calyrex/model/held.h"
#include "calyrex/model/kernel_args.h"

namespace calyrex::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A run of segments of equal shape that lie one after the other, so that one call covers them.
struct SegmentRun {
  AttentionSegment first;
  int64_t count = 1;

  int64_t num_queries() const { return first.query_end - first.query_begin; }
  int64_t num_keys() const { return first.key_end - first.key_begin; }
};

std::vector<SegmentRun> join_equal_segments(const std::vector<AttentionSegment>& segments) {
  std::vector<SegmentRun> runs;
  for (const AttentionSegment& segment : segments) {
    if (!runs.empty()) {
      SegmentRun& run = runs.back();
      const int64_t queries = run.num_queries(), keys = run.num_keys();
      if (segment.causal == run.first.causal && segment.query_skip == 0 && run.first.query_skip == 0 &&
          segment.query_end - segment.query_begin == queries && segment.key_end - segment.key_begin == keys &&
          segment.query_begin == run.first.query_begin + run.count * queries &&
          segment.key_begin == run.first.key_begin + run.count * keys) {
        ++run.count;
        continue;
      }
    }
    runs.push_back({.first = segment});
  }
  return runs;
}

/// Rows of a run as the library wants them: [count, heads, length, head_dim], a view.
at::Tensor run_view(const at::Tensor& rows, int64_t begin, int64_t length, int64_t count) {
  return rows.narrow(0, begin, length * count).unflatten(0, {count, length}).transpose(1, 2);
}

at::Tensor query_view(const SegmentRun& run, const at::Tensor& rows) {
  return run_view(rows, run.first.query_begin, run.num_queries(), run.count);
}

/// Keys or values of a run: a view where they lie together, else a copy.
at::Tensor key_view(const AttentionPlan& plan, const SegmentRun& run, const at::Tensor& rows) {
  const int64_t begin = run.first.key_begin, length = run.num_keys(), total = length * run.count;
  if (plan.key_rows.empty()) return run_view(rows, begin, length, run.count);
  const int64_t* listed = plan.key_rows.data() + begin;
  if (listed[total - 1] - listed[0] == total - 1) return run_view(rows, listed[0], length, run.count);
  CALYREX_CHECK(rows.stride(2) == 1 && rows.stride(1) == rows.size(2), "the heads of a row lie together");
  at::Tensor gathered = at::empty({total, rows.size(1), rows.size(2)}, rows.options());
  const auto bytes = static_cast<size_t>(rows.size(1) * rows.size(2)) * rows.element_size();
  const size_t row_bytes = static_cast<size_t>(rows.stride(0)) * rows.element_size();
  const auto* from = static_cast<const char*>(rows.const_data_ptr());
  auto* to = static_cast<char*>(gathered.mutable_data_ptr());
  for (int64_t n = 0; n < total; ++n, to += bytes) {
    std::memcpy(to, from + static_cast<size_t>(listed[n]) * row_bytes, bytes);
  }
  return run_view(gathered, 0, length, run.count);
}

/// Writes a run's result [count, heads, length, head_dim] into the rows of its queries.
void store_queries(const SegmentRun& run, const at::Tensor& result, at::Tensor& rows) {
  const int64_t skip = run.first.query_skip, kept = run.num_queries() - skip;
  run_view(rows, run.first.query_begin + skip, kept, run.count).copy_(result.narrow(2, skip, kept));
}

/// Adds a run's result to the rows of the keys it names: several segments share keys.
void add_keys(const SegmentRun& run, const at::Tensor& result, at::Tensor& rows) {
  run_view(rows, run.first.key_begin, run.num_keys(), run.count).add_(result);
}

/// How a plan is run: with many sequences each is one thread's work and the library's kernels run within that
/// thread (one parallel region a call instead of several a segment); with few, the kernels themselves are
/// parallel.
struct Schedule {
  std::vector<SegmentRun> runs;
  std::vector<size_t> tasks;  // first run of each task, and the end; runs of one task name the same keys
  bool across_tasks = false;
};

Schedule make_schedule(const AttentionPlan& plan) {
  Schedule schedule;
  int64_t key_end = -1;
  for (size_t n = 0; n < plan.segments.size(); ++n) {
    if (plan.segments[n].key_begin >= key_end) schedule.tasks.push_back(n);
    key_end = std::max(key_end, plan.segments[n].key_end);
    schedule.runs.push_back({.first = plan.segments[n]});
  }
  const size_t enough = 2 * static_cast<size_t>(at::get_num_threads());
  schedule.across_tasks = at::get_num_threads() > 1 && schedule.tasks.size() >= enough;
  if (!schedule.across_tasks) {
    schedule.runs = join_equal_segments(plan.segments);
    schedule.tasks = {0};
  }
  schedule.tasks.push_back(schedule.runs.size());
  return schedule;
}

}  // namespace

struct PlanAttention::Prepared {
  explicit Prepared(AttentionPlan attention_plan)
      : plan(std::move(attention_plan)),
        covers_queries(plan.covers_queries()),
        schedule(make_schedule(plan)) {}
  const AttentionPlan plan;
  const bool covers_queries;
  const Schedule schedule;
};

namespace {

using Prepared = PlanAttention::Prepared;

/// Calls `function(index, run)` for every run as the schedule says.
template <typename RunFunction>
void for_each_run(const Schedule& schedule, const RunFunction& function) {
  const auto run_tasks = [&](int64_t begin, int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const size_t last = schedule.tasks[static_cast<size_t>(end)];
    for (size_t n = schedule.tasks[static_cast<size_t>(begin)]; n < last; ++n) function(n, schedule.runs[n]);
  };
  const auto num_tasks = static_cast<int64_t>(schedule.tasks.size()) - 1;
  if (schedule.across_tasks) {
    at::parallel_for(0, num_tasks, 1, run_tasks);
  } else {
    run_tasks(0, num_tasks);
  }
}

/// What the segments write to, for each query.
at::Tensor result_rows(const Prepared& prepared, const at::Tensor& q) {
  return prepared.covers_queries ? at::empty(q.sizes(), q.options()) : at::zeros(q.sizes(), q.options());
}

/// Forward over all runs; keeps each run's log-sum-exp when `logsumexp` is given.
at::Tensor forward_runs(const Prepared& prepared, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, std::vector<at::Tensor>* logsumexp) {
  at::Tensor out = result_rows(prepared, q);
  if (logsumexp != nullptr) logsumexp->resize(prepared.schedule.runs.size());
  for_each_run(prepared.schedule, [&](size_t n, const SegmentRun& run) {
    const auto [result, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
        query_view(run, q), key_view(prepared.plan, run, k), key_view(prepared.plan, run, v),
        /*dropout_p=*/0.0, run.first.causal);
    store_queries(run, result, out);
    if (logsumexp != nullptr) (*logsumexp)[n] = lse;
  });
  return out;
}

/// The gradient of a run's results; none for the queries that it skips.
at::Tensor result_gradient(const SegmentRun& run, const at::Tensor& grad) {
  const at::Tensor view = query_view(run, grad);
  if (run.first.query_skip == 0) return view;
  at::Tensor own = view.clone();
  own.narrow(2, 0, run.first.query_skip).zero_();
  return own;
}

/// Sums what belongs to named keys into their rows.
at::Tensor sum_by_row(const AttentionPlan& plan, at::Tensor of_names, const at::Tensor& rows) {
  if (plan.key_rows.empty()) return of_names;
  at::Tensor sums = at::zeros(rows.sizes(), rows.options());
  const at::Tensor values = of_names.flatten(1);
  at::Tensor target = sums.flatten(1);
  // Threads take columns, so that each sum has one order.
  constexpr int64_t kGrain = 32;
  at::parallel_for(0, values.size(1), kGrain, [&](int64_t begin, int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    visit_values(target, [&](auto* to) {
      const auto* from = const_values<PointedTo<decltype(to)>>(values);
      const int64_t width = values.size(1);
      for (size_t n = 0; n < plan.key_rows.size(); ++n) {
        auto* row = to + plan.key_rows[n] * width;
        const auto* named = from + static_cast<int64_t>(n) * width;
        for (int64_t column = begin; column < end; ++column) row[column] = row[column] + named[column];
      }
    });
  });
  return sums;
}

class RaggedAttention : public torch::autograd::Function<RaggedAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::shared_ptr<const Prepared>& prepared) {
    std::vector<at::Tensor> saved;
    at::Tensor out = forward_runs(*prepared, q, k, v, &saved);
    saved.insert(saved.end(), {q, k, v, out});
    context->save_for_backward(std::move(saved));
    context->saved_data["prepared"] = hold(prepared);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const size_t base = saved.size() - 4;
    const at::Tensor &q = saved[base], &k = saved[base + 1], &v = saved[base + 2], &out = saved[base + 3];
    const auto kept = held<std::shared_ptr<const Prepared>>(context->saved_data["prepared"]);
    const Prepared& prepared = *kept;
    const at::Tensor grad = grads[0].contiguous();
    at::Tensor grad_q = result_rows(prepared, q);
    const std::vector<int64_t> named = {prepared.plan.num_named_keys(), k.size(1), k.size(2)};
    at::Tensor grad_k = at::zeros(named, k.options());
    at::Tensor grad_v = at::zeros(named, v.options());
    for_each_run(prepared.schedule, [&](size_t n, const SegmentRun& run) {
      const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          result_gradient(run, grad), query_view(run, q), key_view(prepared.plan, run, k),
          key_view(prepared.plan, run, v), query_view(run, out), saved[n], /*dropout_p=*/0.0,
          run.first.causal);
      store_queries(run, dq, grad_q);
      add_keys(run, dk, grad_k);
      add_keys(run, dv, grad_v);
    });
    return {grad_q, sum_by_row(prepared.plan, grad_k, k), sum_by_row(prepared.plan, grad_v, v), at::Tensor()};
  }
};

/// Rows [begin, end) of a list, or of the numbers themselves when there is none.
at::Tensor listed_rows(const std::vector<int64_t>& list, const at::Tensor& x) {
  return list.empty() ? x : x.index_select(0, at::tensor(list, at::kLong).to(x.device()));
}

/// Other devices: the library's dispatcher chooses the fused kernel, and split keeps the backward linear.
at::Tensor attend_by_library(const AttentionPlan& plan, const at::Tensor& q, const at::Tensor& k,
                             const at::Tensor& v) {
  CALYREX_CHECK(plan.covers_queries(), "queries without a segment are for the CPU");
  std::vector<int64_t> lengths, filled;
  for (const AttentionSegment& segment : plan.segments) {
    lengths.push_back(segment.query_end - segment.query_begin);
    if (plan.key_rows.empty()) continue;
    for (int64_t query = segment.query_begin; query < segment.query_end; ++query) filled.push_back(query);
  }
  const std::vector<at::Tensor> queries = listed_rows(filled, q).split_with_sizes(lengths);
  const at::Tensor keys = listed_rows(plan.key_rows, k), values = listed_rows(plan.key_rows, v);
  std::vector<at::Tensor> results;
  for (size_t n = 0; n < plan.segments.size(); ++n) {
    const SegmentRun run{.first = plan.segments[n]};
    const auto of_run = [&](const at::Tensor& rows) {
      return run_view(rows, run.first.key_begin, run.num_keys(), 1);
    };
    const at::Tensor result = at::scaled_dot_product_attention(
        run_view(queries[n], 0, lengths[n], 1), of_run(keys), of_run(values), /*attn_mask=*/{},
        /*dropout_p=*/0.0, run.first.causal, /*scale=*/std::nullopt, /*enable_gqa=*/true);
    const int64_t skip = run.first.query_skip;
    results.push_back(result.squeeze(0).transpose(0, 1).narrow(0, skip, lengths[n] - skip));
  }
  return at::cat(results);
}

}  // namespace

PlanAttention::PlanAttention(AttentionPlan plan)
    : prepared_(std::make_shared<const Prepared>(std::move(plan))) {}

at::Tensor PlanAttention::attend(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                                 const at::Tensor& v) {
  const AttentionPlan& plan = prepared_->plan;
  CALYREX_CHECK(q.size(0) == plan.num_queries && k.size(0) == plan.num_keys,
                "layer {}: {} queries and {} keys for a plan of {} and {}", layer, q.size(0), k.size(0),
                plan.num_queries, plan.num_keys);
  if (!q.is_cpu()) return attend_by_library(plan, q, k, v);
  if (!at::GradMode::is_enabled()) return forward_runs(*prepared_, q, k, v, nullptr);
  return RaggedAttention::apply(q, k, v, prepared_);
}

at::Tensor attention_reference(const AttentionPlan& plan, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v) {
  const int64_t group = q.size(1) / k.size(1);
  at::Tensor mask =
      at::full({plan.num_queries, plan.num_keys}, -std::numeric_limits<double>::infinity(), q.options());
  const auto row_of = [&](int64_t key) {
    return plan.key_rows.empty() ? key : plan.key_rows[static_cast<size_t>(key)];
  };
  for (const AttentionSegment& segment : plan.segments) {
    for (int64_t n = segment.query_skip; n < segment.query_end - segment.query_begin; ++n) {
      const int64_t end = segment.causal ? segment.key_begin + n + 1 : segment.key_end;
      for (int64_t key = segment.key_begin; key < end; ++key) {
        mask[segment.query_begin + n][row_of(key)].zero_();
      }
    }
  }
  const at::Tensor keys = k.repeat_interleave(group, 1).transpose(0, 1);  // [heads, keys, head_dim]
  const at::Tensor values = v.repeat_interleave(group, 1).transpose(0, 1);
  const at::Tensor scores =
      at::matmul(q.transpose(0, 1), keys.transpose(1, 2)) / std::sqrt(static_cast<double>(q.size(2))) + mask;
  return at::matmul(at::softmax(scores, -1), values).transpose(0, 1).contiguous();
}

}  // namespace calyrex::model
