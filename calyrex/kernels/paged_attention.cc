#include "calyrex/kernels/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "calyrex/base/error.h"
#include "calyrex/kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "calyrex/kernels/paged_attention.cc"
#include <hwy/foreach_target.h>

#include "calyrex/kernels/simd-inl.h"

#ifndef CALYREX_KERNELS_PAGED_ATTENTION_ONCE
#define CALYREX_KERNELS_PAGED_ATTENTION_ONCE
namespace calyrex::kernels {
namespace {

constexpr int64_t kMaxPagedHeadDim = 256;
constexpr int64_t kBlockKeys = 64;  // keys between two updates of the running maximum
constexpr int64_t kTileQueries = 4;
constexpr int64_t kTileKeys = 4;
constexpr float kNoKeys = -std::numeric_limits<float>::infinity();

/// Some query heads of one sequence that share a key/value head, and the keys they look at.
struct AttentionTask {
  int64_t sequence = 0;
  int64_t first_head = 0;
  int64_t key_begin = 0;
  int64_t key_end = 0;
};

/// Where a task's result goes: unnormalised sums with their maximum and weight, to be merged, or normalised.
struct PartialSums {
  float* out = nullptr;      // [heads, head_dim]
  float* maximum = nullptr;  // [heads]
  float* weight = nullptr;   // [heads]
};

}  // namespace
}  // namespace calyrex::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace calyrex::kernels::HWY_NAMESPACE {

/// scores[q][key] = query q . key, for kQueries queries and kKeys keys.
template <int kQueries, int kKeys, typename Cache>
HWY_INLINE void score_tile(FloatTag d, const float* queries, const Cache* const* keys, int64_t dim,
                           float (*scores)[kBlockKeys], int64_t first_key) {
  FloatVec sums[kQueries][kKeys];
  for (int q = 0; q < kQueries; ++q) {
    for (int k = 0; k < kKeys; ++k) sums[q][k] = hn::Zero(d);
  }
  for_each_vector(d, dim, [&](int64_t at, auto extent) HWY_ATTR {
    FloatVec key[kKeys];
    for (int k = 0; k < kKeys; ++k) key[k] = load(d, keys[first_key + k] + at, extent);
    for (int q = 0; q < kQueries; ++q) {
      const FloatVec query = load(d, queries + q * kMaxPagedHeadDim + at, extent);
      for (int k = 0; k < kKeys; ++k) sums[q][k] = hn::MulAdd(query, key[k], sums[q][k]);
    }
  });
  for (int q = 0; q < kQueries; ++q) {
    for (int k = 0; k < kKeys; ++k) scores[q][first_key + k] = hn::GetLane(hn::SumOfLanes(d, sums[q][k]));
  }
}

/// Turns scores into weights e^(score - maximum) and returns the factor for what was summed before.
HWY_INLINE float update_softmax(FloatTag d, float* scores, int64_t count, float& maximum, float& weight) {
  float top = maximum;
  for (int64_t k = 0; k < count; ++k) top = scores[k] > top ? scores[k] : top;
  const float factor = maximum == kNoKeys ? 0.0f : std::exp(maximum - top);
  const FloatVec top_vector = hn::Set(d, top);
  for_each_vector(d, count, [&](int64_t at, auto extent) HWY_ATTR {
    store(d, exp_or_nan(d, hn::Sub(load(d, scores + at, extent), top_vector)), scores + at, extent);
  });
  float sum = 0.0f;
  for (int64_t k = 0; k < count; ++k) sum += scores[k];
  weight = weight * factor + sum;
  maximum = top;
  return factor;
}

/// out[q] = out[q] * factors[q] + sum over keys of weights[q][key] * value[key].
template <int kQueries, typename Cache>
HWY_INLINE void add_values(FloatTag d, const float (*weights)[kBlockKeys], const float* factors,
                           const Cache* const* values, int64_t count, int64_t dim, float* out) {
  for_each_vector(d, dim, [&](int64_t at, auto extent) HWY_ATTR {
    FloatVec sums[kQueries];
    for (int q = 0; q < kQueries; ++q) {
      sums[q] = hn::Mul(load(d, out + q * dim + at, extent), hn::Set(d, factors[q]));
    }
    for (int64_t k = 0; k < count; ++k) {
      const FloatVec value = load(d, values[k] + at, extent);
      for (int q = 0; q < kQueries; ++q) sums[q] = hn::MulAdd(value, hn::Set(d, weights[q][k]), sums[q]);
    }
    for (int q = 0; q < kQueries; ++q) store(d, sums[q], out + q * dim + at, extent);
  });
}

template <int kQueries, typename Query, typename Cache>
HWY_INLINE void attend(const PagedAttentionArgs<Query, Cache>& args, const AttentionTask& task,
                       const PartialSums& sums) {
  const FloatTag d;
  const auto [kv_heads, page_size, dim] = args.layout;
  const int64_t kv_head = task.first_head / (args.num_heads / kv_heads);
  HWY_ALIGN float queries[kQueries * kMaxPagedHeadDim];
  const FloatVec scale = hn::Set(d, args.scale);
  const Query* query_rows = args.q + (task.sequence * args.num_heads + task.first_head) * dim;
  for (int q = 0; q < kQueries; ++q) {
    for_each_vector(d, dim, [&](int64_t at, auto extent) HWY_ATTR {
      store(d, hn::Mul(load(d, query_rows + q * dim + at, extent), scale),
            queries + q * kMaxPagedHeadDim + at, extent);
    });
    sums.maximum[q] = kNoKeys;
    sums.weight[q] = 0.0f;
  }
  std::fill(sums.out, sums.out + kQueries * dim, 0.0f);

  const int32_t* pages = args.page_table + task.sequence * args.max_pages;
  for (int64_t begin = task.key_begin; begin < task.key_end; begin += kBlockKeys) {
    const int64_t count = std::min(kBlockKeys, task.key_end - begin);
    const Cache* keys[kBlockKeys];
    const Cache* values[kBlockKeys];
    for (int64_t k = 0; k < count; ++k) {
      const int64_t position = begin + k;
      const int64_t row =
          (pages[position / page_size] * kv_heads + kv_head) * page_size + position % page_size;
      keys[k] = args.k_pages + row * dim;
      values[k] = args.v_pages + row * dim;
    }
    HWY_ALIGN float scores[kQueries][kBlockKeys];
    int64_t k = 0;
    for (; k + kTileKeys <= count; k += kTileKeys) {
      score_tile<kQueries, kTileKeys>(d, queries, keys, dim, scores, k);
    }
    for (; k < count; ++k) score_tile<kQueries, 1>(d, queries, keys, dim, scores, k);
    float factors[kQueries];
    for (int q = 0; q < kQueries; ++q) {
      factors[q] = update_softmax(d, scores[q], count, sums.maximum[q], sums.weight[q]);
    }
    add_values<kQueries>(d, scores, factors, values, count, dim, sums.out);
  }
}

template <typename Query, typename Cache>
HWY_INLINE void attend_any(const PagedAttentionArgs<Query, Cache>& args, const AttentionTask& task,
                           int64_t queries, const PartialSums& sums) {
  switch (queries) {
    case 1:
      return attend<1>(args, task, sums);
    case 2:
      return attend<2>(args, task, sums);
    case 3:
      return attend<3>(args, task, sums);
    default:
      return attend<4>(args, task, sums);
  }
}

void attend_f32_f32(const PagedAttentionArgs<float, float>& args, const AttentionTask& task, int64_t queries,
                    const PartialSums& sums) {
  attend_any(args, task, queries, sums);
}
void attend_f32_bf16(const PagedAttentionArgs<float, BFloat16>& args, const AttentionTask& task,
                     int64_t queries, const PartialSums& sums) {
  attend_any(args, task, queries, sums);
}
void attend_bf16_bf16(const PagedAttentionArgs<BFloat16, BFloat16>& args, const AttentionTask& task,
                      int64_t queries, const PartialSums& sums) {
  attend_any(args, task, queries, sums);
}

template <typename Source, typename Cache>
HWY_INLINE void store_rows(const StorePagesArgs<Source, Cache>& args, int64_t begin, int64_t end) {
  const FloatTag d;
  const auto [kv_heads, page_size, dim] = args.layout;
  for (int64_t r = begin; r < end; ++r) {
    if (args.slots[r] < 0) continue;
    const int64_t page = args.slots[r] / page_size;
    const int64_t offset = args.slots[r] % page_size;
    for (int64_t head = 0; head < kv_heads; ++head) {
      const Source* from = args.rows_in + (r * kv_heads + head) * dim;
      Cache* to = args.pages + ((page * kv_heads + head) * page_size + offset) * dim;
      for_each_vector(d, dim, [&](int64_t at, auto extent) HWY_ATTR {
        store(d, load(d, from + at, extent), to + at, extent);
      });
    }
  }
}

void store_f32_f32(const StorePagesArgs<float, float>& args, int64_t begin, int64_t end) {
  store_rows(args, begin, end);
}
void store_f32_bf16(const StorePagesArgs<float, BFloat16>& args, int64_t begin, int64_t end) {
  store_rows(args, begin, end);
}
void store_bf16_bf16(const StorePagesArgs<BFloat16, BFloat16>& args, int64_t begin, int64_t end) {
  store_rows(args, begin, end);
}

}  // namespace calyrex::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calyrex::kernels {
namespace {

HWY_EXPORT(attend_f32_f32);
HWY_EXPORT(attend_f32_bf16);
HWY_EXPORT(attend_bf16_bf16);
HWY_EXPORT(store_f32_f32);
HWY_EXPORT(store_f32_bf16);
HWY_EXPORT(store_bf16_bf16);

void check_layout(const PagedLayout& layout) {
  const auto [kv_heads, page_size, dim] = layout;
  CALYREX_CHECK(kv_heads > 0 && page_size > 0, "kv_heads {}, page_size {}", kv_heads, page_size);
  CALYREX_CHECK(dim > 0 && dim % 8 == 0 && dim <= kMaxPagedHeadDim, "head_dim {}", dim);
}

/// One task a (sequence, tile of query heads, split of its keys), in that order.
std::vector<AttentionTask> plan_tasks(const int64_t* lengths, int64_t batch, int64_t num_heads,
                                      int64_t group) {
  std::vector<AttentionTask> tasks;
  for (int64_t sequence = 0; sequence < batch; ++sequence) {
    for (int64_t head = 0; head < num_heads; head += std::min(kTileQueries, group - head % group)) {
      int64_t begin = 0;
      do {
        const int64_t end = std::min(begin + kAttentionSplitKeys, lengths[sequence]);
        tasks.push_back({sequence, head, begin, end});
        begin = end;
      } while (begin < lengths[sequence]);
    }
  }
  return tasks;
}

/// Merges the splits [first, first + count) of one tile of heads and writes the normalised result.
template <typename Query>
void merge_splits(const float* out, const float* maximum, const float* weight, int64_t count, int64_t queries,
                  int64_t dim, Query* to) {
  for (int64_t q = 0; q < queries; ++q) {
    float top = kNoKeys;
    for (int64_t n = 0; n < count; ++n) top = std::max(top, maximum[n * kTileQueries + q]);
    float total = 0.0f;
    float sums[kMaxPagedHeadDim] = {};
    for (int64_t n = 0; n < count; ++n) {
      const float factor = count == 1 ? 1.0f : std::exp(maximum[n * kTileQueries + q] - top);
      total += weight[n * kTileQueries + q] * factor;
      const float* part = out + (n * kTileQueries + q) * dim;
      for (int64_t c = 0; c < dim; ++c) sums[c] += part[c] * factor;
    }
    const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
    for (int64_t c = 0; c < dim; ++c) round_to(sums[c] * inverse, to[q * dim + c]);
  }
}

template <typename Query, typename Cache, typename Kernel>
void run_attention(Kernel kernel, const PagedAttentionArgs<Query, Cache>& args) {
  check_layout(args.layout);
  const int64_t dim = args.layout.head_dim;
  CALYREX_CHECK(args.num_heads > 0 && args.num_heads % args.layout.num_kv_heads == 0, "num_heads {}",
                args.num_heads);
  const int64_t group = args.num_heads / args.layout.num_kv_heads;
  const std::vector<AttentionTask> tasks = plan_tasks(args.lengths, args.batch, args.num_heads, group);
  const auto num_tasks = static_cast<int64_t>(tasks.size());
  std::vector<float> out(num_tasks * kTileQueries * dim);
  std::vector<float> maximum(num_tasks * kTileQueries);
  std::vector<float> weight(num_tasks * kTileQueries);
  int64_t work = 0;
  for (const AttentionTask& task : tasks) work += (task.key_end - task.key_begin) * dim * 2;
  const auto tile = [&](const AttentionTask& task) {
    return std::min(kTileQueries, group - task.first_head % group);
  };
  parallel_items(num_tasks, work, [&](int64_t n) {
    kernel(args, tasks[n], tile(tasks[n]),
           {out.data() + n * kTileQueries * dim, maximum.data() + n * kTileQueries,
            weight.data() + n * kTileQueries});
  });
  for (int64_t n = 0; n < num_tasks;) {
    int64_t splits = 1;
    while (n + splits < num_tasks && tasks[n + splits].key_begin > 0) ++splits;
    const AttentionTask& task = tasks[n];
    merge_splits(out.data() + n * kTileQueries * dim, maximum.data() + n * kTileQueries,
                 weight.data() + n * kTileQueries, splits, tile(task), dim,
                 args.out + (task.sequence * args.num_heads + task.first_head) * dim);
    n += splits;
  }
}

template <typename Args, typename Kernel>
void run_store(Kernel kernel, const Args& args) {
  check_layout(args.layout);
  parallel_for(args.rows, args.layout.num_kv_heads * args.layout.head_dim,
               [&](int64_t begin, int64_t end) { kernel(args, begin, end); });
}

}  // namespace

void paged_attention(const PagedAttentionArgs<float, float>& args) {
  run_attention(CALYREX_KERNELS_DISPATCH(attend_f32_f32), args);
}
void paged_attention(const PagedAttentionArgs<float, BFloat16>& args) {
  run_attention(CALYREX_KERNELS_DISPATCH(attend_f32_bf16), args);
}
void paged_attention(const PagedAttentionArgs<BFloat16, BFloat16>& args) {
  run_attention(CALYREX_KERNELS_DISPATCH(attend_bf16_bf16), args);
}

void store_pages(const StorePagesArgs<float, float>& args) {
  run_store(CALYREX_KERNELS_DISPATCH(store_f32_f32), args);
}
void store_pages(const StorePagesArgs<float, BFloat16>& args) {
  run_store(CALYREX_KERNELS_DISPATCH(store_f32_bf16), args);
}
void store_pages(const StorePagesArgs<BFloat16, BFloat16>& args) {
  run_store(CALYREX_KERNELS_DISPATCH(store_bf16_bf16), args);
}

}  // namespace calyrex::kernels
#endif  // HWY_ONCE
