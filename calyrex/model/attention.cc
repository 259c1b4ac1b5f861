#include "calyrex/model/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "calyrex/base/error.h"

namespace calyrex::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A run of segments of equal shape that lie one after the other, so that one call covers them.
struct SegmentRun {
  AttentionSegment first;
  int64_t count = 1;
};

std::vector<SegmentRun> join_equal_segments(const std::vector<AttentionSegment>& segments) {
  std::vector<SegmentRun> runs;
  for (const AttentionSegment& segment : segments) {
    if (!runs.empty()) {
      SegmentRun& run = runs.back();
      const int64_t queries = run.first.query_end - run.first.query_begin;
      const int64_t keys = run.first.key_end - run.first.key_begin;
      if (segment.causal == run.first.causal && segment.query_end - segment.query_begin == queries &&
          segment.key_end - segment.key_begin == keys &&
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

struct RunViews {
  at::Tensor q, k, v;
};

RunViews view_run(const SegmentRun& run, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const int64_t queries = run.first.query_end - run.first.query_begin;
  const int64_t keys = run.first.key_end - run.first.key_begin;
  return {.q = run_view(q, run.first.query_begin, queries, run.count),
          .k = run_view(k, run.first.key_begin, keys, run.count),
          .v = run_view(v, run.first.key_begin, keys, run.count)};
}

/// Writes a run's result [count, heads, length, head_dim] into rows.
void store_run(const at::Tensor& result, int64_t begin, at::Tensor& rows) {
  const int64_t length = result.size(2);
  run_view(rows, begin, length, result.size(0)).copy_(result);
}

/// Adds a run's result to rows: several segments share keys.
void add_run(const at::Tensor& result, int64_t begin, at::Tensor& rows) {
  const int64_t length = result.size(2);
  run_view(rows, begin, length, result.size(0)).add_(result);
}

constexpr int64_t kSegmentFields = 5;

std::vector<int64_t> flatten(const std::vector<AttentionSegment>& segments) {
  std::vector<int64_t> numbers;
  numbers.reserve(segments.size() * kSegmentFields);
  for (const AttentionSegment& segment : segments) {
    numbers.insert(numbers.end(), {segment.query_begin, segment.query_end, segment.key_begin, segment.key_end,
                                   segment.causal ? 1 : 0});
  }
  return numbers;
}

std::vector<AttentionSegment> unflatten(const std::vector<int64_t>& numbers) {
  std::vector<AttentionSegment> segments;
  for (size_t n = 0; n < numbers.size(); n += kSegmentFields) {
    segments.push_back({numbers[n], numbers[n + 1], numbers[n + 2], numbers[n + 3], numbers[n + 4] != 0});
  }
  return segments;
}

/// How a plan is run: with many sequences each is one thread's work and the library's kernels run within that
/// thread (one parallel region a call instead of several a segment); with few, the kernels themselves are
/// parallel.
struct Schedule {
  std::vector<SegmentRun> runs;
  std::vector<size_t> tasks;  // first run of each task, and the end; runs of one task share keys
  bool across_tasks = false;
};

Schedule make_schedule(const std::vector<AttentionSegment>& segments) {
  Schedule schedule;
  int64_t key_end = -1;
  for (size_t n = 0; n < segments.size(); ++n) {
    if (segments[n].key_begin >= key_end) schedule.tasks.push_back(n);
    key_end = std::max(key_end, segments[n].key_end);
    schedule.runs.push_back({.first = segments[n]});
  }
  const size_t enough = 2 * static_cast<size_t>(at::get_num_threads());
  schedule.across_tasks = at::get_num_threads() > 1 && schedule.tasks.size() >= enough;
  if (!schedule.across_tasks) {
    schedule.runs = join_equal_segments(segments);
    schedule.tasks = {0};
  }
  schedule.tasks.push_back(schedule.runs.size());
  return schedule;
}

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

/// Forward over all runs; keeps each run's log-sum-exp when `logsumexp` is given.
at::Tensor forward_runs(const Schedule& schedule, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, std::vector<at::Tensor>* logsumexp) {
  at::Tensor out = at::empty(q.sizes(), q.options());
  if (logsumexp != nullptr) logsumexp->resize(schedule.runs.size());
  for_each_run(schedule, [&](size_t n, const SegmentRun& run) {
    const RunViews views = view_run(run, q, k, v);
    const auto [result, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
        views.q, views.k, views.v, /*dropout_p=*/0.0, run.first.causal);
    store_run(result, run.first.query_begin, out);
    if (logsumexp != nullptr) (*logsumexp)[n] = lse;
  });
  return out;
}

class RaggedAttention : public torch::autograd::Function<RaggedAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::vector<int64_t>& segments) {
    std::vector<at::Tensor> saved;
    at::Tensor out = forward_runs(make_schedule(unflatten(segments)), q, k, v, &saved);
    saved.insert(saved.end(), {q, k, v, out});
    context->save_for_backward(std::move(saved));
    context->saved_data["segments"] = segments;
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const size_t base = saved.size() - 4;
    const at::Tensor &q = saved[base], &k = saved[base + 1], &v = saved[base + 2], &out = saved[base + 3];
    const at::Tensor grad = grads[0].contiguous();
    at::Tensor grad_q = at::empty(q.sizes(), q.options());
    at::Tensor grad_k = at::zeros(k.sizes(), k.options());
    at::Tensor grad_v = at::zeros(v.sizes(), v.options());
    for_each_run(make_schedule(unflatten(context->saved_data["segments"].toIntVector())),
                 [&](size_t n, const SegmentRun& run) {
                   const RunViews views = view_run(run, q, k, v);
                   const int64_t queries = run.first.query_end - run.first.query_begin;
                   const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
                       run_view(grad, run.first.query_begin, queries, run.count), views.q, views.k, views.v,
                       run_view(out, run.first.query_begin, queries, run.count), saved[n], /*dropout_p=*/0.0,
                       run.first.causal);
                   store_run(dq, run.first.query_begin, grad_q);
                   add_run(dk, run.first.key_begin, grad_k);
                   add_run(dv, run.first.key_begin, grad_v);
                 });
    return {grad_q, grad_k, grad_v, at::Tensor()};
  }
};

/// Other devices: the library's dispatcher chooses the fused kernel, and split keeps the backward linear.
at::Tensor attend_by_library(const AttentionPlan& plan, const at::Tensor& q, const at::Tensor& k,
                             const at::Tensor& v) {
  std::vector<int64_t> lengths;
  for (const AttentionSegment& segment : plan.segments)
    lengths.push_back(segment.query_end - segment.query_begin);
  const std::vector<at::Tensor> queries = q.split_with_sizes(lengths);
  std::vector<at::Tensor> results;
  for (size_t n = 0; n < plan.segments.size(); ++n) {
    const AttentionSegment& segment = plan.segments[n];
    const int64_t keys = segment.key_end - segment.key_begin;
    const at::Tensor result = at::scaled_dot_product_attention(
        run_view(queries[n], 0, lengths[n], 1), run_view(k, segment.key_begin, keys, 1),
        run_view(v, segment.key_begin, keys, 1), /*attn_mask=*/{}, /*dropout_p=*/0.0, segment.causal,
        /*scale=*/std::nullopt, /*enable_gqa=*/true);
    results.push_back(result.squeeze(0).transpose(0, 1));
  }
  return at::cat(results);
}

}  // namespace

at::Tensor PlanAttention::attend(int64_t layer, const at::Tensor& q, const at::Tensor& k,
                                 const at::Tensor& v) {
  CALYREX_CHECK(q.size(0) == plan_.num_queries && k.size(0) == plan_.num_keys,
                "layer {}: {} queries and {} keys for a plan of {} and {}", layer, q.size(0), k.size(0),
                plan_.num_queries, plan_.num_keys);
  if (!q.is_cpu()) return attend_by_library(plan_, q, k, v);
  if (!at::GradMode::is_enabled()) return forward_runs(make_schedule(plan_.segments), q, k, v, nullptr);
  return RaggedAttention::apply(q, k, v, flatten(plan_.segments));
}

at::Tensor attention_reference(const AttentionPlan& plan, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v) {
  const int64_t group = q.size(1) / k.size(1);
  at::Tensor mask =
      at::full({plan.num_queries, plan.num_keys}, -std::numeric_limits<double>::infinity(), q.options());
  for (const AttentionSegment& segment : plan.segments) {
    for (int64_t query = segment.query_begin; query < segment.query_end; ++query) {
      const int64_t end =
          segment.causal ? segment.key_begin + (query - segment.query_begin) + 1 : segment.key_end;
      mask[query].slice(0, segment.key_begin, end).fill_(0.0);
    }
  }
  const at::Tensor keys = k.repeat_interleave(group, 1).transpose(0, 1);  // [heads, keys, head_dim]
  const at::Tensor values = v.repeat_interleave(group, 1).transpose(0, 1);
  const at::Tensor scores =
      at::matmul(q.transpose(0, 1), keys.transpose(1, 2)) / std::sqrt(static_cast<double>(q.size(2))) + mask;
  return at::matmul(at::softmax(scores, -1), values).transpose(0, 1).contiguous();
}

}  // namespace calyrex::model
