#include "calyrex/kernels/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
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
constexpr int64_t kTileKeys = 4;  // as many as sum_lanes_of_four() takes
constexpr float kNoKeys = -std::numeric_limits<float>::infinity();

/// Some query heads of one sequence that share a key/value head, and the keys they look at.
struct AttentionTask {
  int64_t sequence = 0;
  int64_t first_head = 0;
  int64_t num_heads = 0;
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

#if HWY_TARGET != HWY_SCALAR
/// Adds the blocks of four lanes of a vector and stores the four sums.
template <class D>
HWY_INLINE void sum_blocks_of_four(D d, hn::Vec<D> v, float* to) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    sum_blocks_of_four(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), to);
  } else {
    hn::StoreU(v, d, to);
  }
}
#endif

/// The sums of the lanes of four vectors, in the first four places of `to`.
HWY_INLINE void sum_lanes_of_four(FloatTag d, const FloatVec* v, float* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int n = 0; n < 4; ++n) to[n] = hn::GetLane(v[n]);
#else
  const hn::Repartition<double, FloatTag> pairs;
  const FloatVec ab = hn::Add(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1]));
  const FloatVec cd = hn::Add(hn::InterleaveLower(d, v[2], v[3]), hn::InterleaveUpper(d, v[2], v[3]));
  const auto ab_pairs = hn::BitCast(pairs, ab);
  const auto cd_pairs = hn::BitCast(pairs, cd);
  const FloatVec low = hn::BitCast(d, hn::InterleaveLower(pairs, ab_pairs, cd_pairs));
  const FloatVec high = hn::BitCast(d, hn::InterleaveUpper(pairs, ab_pairs, cd_pairs));
  // Every block of four lanes now holds its share of the four sums.
  sum_blocks_of_four(d, hn::Add(low, high), to);
#endif
}

/// scores[q][key] = query q . key, for kQueries queries and four keys.
template <int kQueries, typename Cache>
HWY_INLINE void score_tile(FloatTag d, const float* queries, const Cache* const* keys, int64_t dim,
                           float (*scores)[kBlockKeys], int64_t first_key) {
  FloatVec sums[kQueries][kTileKeys];
  for (int q = 0; q < kQueries; ++q) {
    for (int k = 0; k < kTileKeys; ++k) sums[q][k] = hn::Zero(d);
  }
  for_each_vector(d, dim, [&](int64_t at, auto extent) HWY_ATTR {
    FloatVec key[kTileKeys];
    for (int k = 0; k < kTileKeys; ++k) key[k] = load(d, keys[k] + at, extent);
    for (int q = 0; q < kQueries; ++q) {
      const FloatVec query = load(d, queries + q * kMaxPagedHeadDim + at, extent);
      for (int k = 0; k < kTileKeys; ++k) sums[q][k] = hn::MulAdd(query, key[k], sums[q][k]);
    }
  });
  for (int q = 0; q < kQueries; ++q) sum_lanes_of_four(d, sums[q], scores[q] + first_key);
}

/// Turns the scores of one block (padded with -infinity to whole vectors) into weights e^(score - maximum)
/// and returns the factor for what was summed before.
HWY_INLINE float update_softmax(FloatTag d, float* scores, int64_t padded, float& maximum, float& weight) {
  FloatVec best = hn::Set(d, maximum);
  for_each_vector(d, padded, [&](int64_t at, auto extent) HWY_ATTR {
    best = hn::Max(best, load(d, scores + at, extent));
  });
  const FloatVec top = hn::MaxOfLanes(d, best);
  FloatVec sum = hn::Zero(d);
  for_each_vector(d, padded, [&](int64_t at, auto extent) HWY_ATTR {
    const FloatVec e = exp_or_nan(d, hn::Sub(load(d, scores + at, extent), top));
    sum = hn::Add(sum, e);
    store(d, e, scores + at, extent);
  });
  const float new_maximum = hn::GetLane(top);
  const float factor = maximum == kNoKeys ? 0.0f : std::exp(maximum - new_maximum);
  weight = weight * factor + hn::GetLane(hn::SumOfLanes(d, sum));
  maximum = new_maximum;
  return factor;
}

/// out[q] = out[q] * factors[q] + sum over keys of weights[q][key] * value[key], for kColumns vectors from
/// `at`.
template <int kQueries, int kColumns, typename Extent, typename Cache>
HWY_INLINE void add_value_columns(FloatTag d, const float (*weights)[kBlockKeys], const float* factors,
                                  const Cache* const* values, int64_t count, int64_t dim, int64_t at,
                                  Extent extent, float* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  FloatVec sums[kQueries][kColumns];
  for (int q = 0; q < kQueries; ++q) {
    for (int c = 0; c < kColumns; ++c) {
      sums[q][c] = hn::Mul(load(d, out + q * dim + at + c * lanes, extent), hn::Set(d, factors[q]));
    }
  }
  for (int64_t k = 0; k < count; ++k) {
    FloatVec value[kColumns];
    for (int c = 0; c < kColumns; ++c) value[c] = load(d, values[k] + at + c * lanes, extent);
    for (int q = 0; q < kQueries; ++q) {
      const FloatVec factor = hn::Set(d, weights[q][k]);
      for (int c = 0; c < kColumns; ++c) sums[q][c] = hn::MulAdd(value[c], factor, sums[q][c]);
    }
  }
  for (int q = 0; q < kQueries; ++q) {
    for (int c = 0; c < kColumns; ++c) store(d, sums[q][c], out + q * dim + at + c * lanes, extent);
  }
}

template <int kQueries, typename Cache>
HWY_INLINE void add_values(FloatTag d, const float (*weights)[kBlockKeys], const float* factors,
                           const Cache* const* values, int64_t count, int64_t dim, float* out) {
  constexpr int kColumns = 4;  // sums in flight, to hide the latency of the additions
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t at = 0;
  for (; at + kColumns * lanes <= dim; at += kColumns * lanes) {
    add_value_columns<kQueries, kColumns>(d, weights, factors, values, count, dim, at, Whole{}, out);
  }
  for_each_vector(d, dim - at, [&](int64_t offset, auto extent) HWY_ATTR {
    add_value_columns<kQueries, 1>(d, weights, factors, values, count, dim, at + offset, extent, out);
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
    // The last tile is filled up with its last key, and what that gives is then overwritten.
    const int64_t tiled = hwy::RoundUpTo(count, kTileKeys);
    const int64_t padded = hwy::RoundUpTo(count, std::max<size_t>(hn::Lanes(d), kTileKeys));
    for (int64_t k = count; k < tiled; ++k) keys[k] = keys[count - 1];
    HWY_ALIGN float scores[kQueries][kBlockKeys];
    for (int64_t k = 0; k < tiled; k += kTileKeys) {
      score_tile<kQueries>(d, queries, keys + k, dim, scores, k);
    }
    float factors[kQueries];
    for (int q = 0; q < kQueries; ++q) {
      std::fill(scores[q] + count, scores[q] + padded, kNoKeys);
      factors[q] = update_softmax(d, scores[q], padded, sums.maximum[q], sums.weight[q]);
    }
    add_values<kQueries>(d, scores, factors, values, count, dim, sums.out);
  }
}

template <typename Query, typename Cache>
HWY_INLINE void attend_any(const PagedAttentionArgs<Query, Cache>& args, const AttentionTask& task,
                           const PartialSums& sums) {
  switch (task.num_heads) {
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

void attend_f32_f32(const PagedAttentionArgs<float, float>& args, const AttentionTask& task,
                    const PartialSums& sums) {
  attend_any(args, task, sums);
}
void attend_f32_bf16(const PagedAttentionArgs<float, BFloat16>& args, const AttentionTask& task,
                     const PartialSums& sums) {
  attend_any(args, task, sums);
}
void attend_bf16_bf16(const PagedAttentionArgs<BFloat16, BFloat16>& args, const AttentionTask& task,
                      const PartialSums& sums) {
  attend_any(args, task, sums);
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

/// The kernel for the given types, compiled for the target in use.
template <typename Query, typename Cache>
auto attend_kernel() {
  if constexpr (sizeof(Query) == sizeof(BFloat16)) {
    return CALYREX_KERNELS_DISPATCH(attend_bf16_bf16);
  } else if constexpr (sizeof(Cache) == sizeof(BFloat16)) {
    return CALYREX_KERNELS_DISPATCH(attend_f32_bf16);
  } else {
    return CALYREX_KERNELS_DISPATCH(attend_f32_f32);
  }
}

/// Merges `count` splits of one tile of heads and writes the normalised result.
template <typename Query>
void merge_splits(const PartialSums& splits, int64_t count, int64_t queries, int64_t dim, Query* to) {
  for (int64_t q = 0; q < queries; ++q) {
    float top = kNoKeys;
    for (int64_t n = 0; n < count; ++n) top = std::max(top, splits.maximum[n * kTileQueries + q]);
    float total = 0.0f;
    float sums[kMaxPagedHeadDim] = {};
    for (int64_t n = 0; n < count; ++n) {
      const float factor = count == 1 ? 1.0f : std::exp(splits.maximum[n * kTileQueries + q] - top);
      total += splits.weight[n * kTileQueries + q] * factor;
      const float* part = splits.out + (n * kTileQueries + q) * dim;
      for (int64_t c = 0; c < dim; ++c) sums[c] += part[c] * factor;
    }
    const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
    for (int64_t c = 0; c < dim; ++c) round_to(sums[c] * inverse, to[q * dim + c]);
  }
}

/// The work in two phases: attend() once for each task, then merge() once for each sequence. Calls of one
/// phase may run at the same time.
class PagedAttentionTasks {
 public:
  PagedAttentionTasks(const PagedLayout& layout, std::span<const int64_t> lengths, int64_t num_heads);

  int64_t num_tasks() const { return static_cast<int64_t>(tasks_.size()); }
  /// Multiplications of all tasks.
  int64_t work() const { return work_; }

  template <typename Query, typename Cache>
  void attend(const PagedAttentionArgs<Query, Cache>& args, int64_t task);
  template <typename Query, typename Cache>
  void merge(const PagedAttentionArgs<Query, Cache>& args, int64_t sequence) const;

 private:
  int64_t head_dim_ = 0;
  int64_t work_ = 0;
  std::vector<AttentionTask> tasks_;  // by sequence, then head, then key
  std::vector<int64_t> first_task_;   // [sequences + 1]
  std::vector<float> out_;            // [tasks, heads of a task, head_dim], not yet divided by the weight
  std::vector<float> maximum_;        // [tasks, heads of a task]
  std::vector<float> weight_;         // [tasks, heads of a task]
};

PagedAttentionTasks::PagedAttentionTasks(const PagedLayout& layout, std::span<const int64_t> lengths,
                                         int64_t num_heads)
    : head_dim_(layout.head_dim), first_task_(1, 0) {
  check_layout(layout);
  CALYREX_CHECK(num_heads > 0 && num_heads % layout.num_kv_heads == 0, "num_heads {}", num_heads);
  const int64_t group = num_heads / layout.num_kv_heads;
  for (size_t sequence = 0; sequence < lengths.size(); ++sequence) {
    const int64_t length = lengths[sequence];
    int64_t tile = 0;
    for (int64_t head = 0; head < num_heads; head += tile) {
      tile = std::min(kTileQueries, group - head % group);
      int64_t begin = 0;
      do {
        const int64_t end = std::min(begin + kAttentionSplitKeys, length);
        tasks_.push_back({static_cast<int64_t>(sequence), head, tile, begin, end});
        begin = end;
      } while (begin < length);
    }
    work_ += length * num_heads * head_dim_ * 2;
    first_task_.push_back(num_tasks());
  }
  maximum_.resize(tasks_.size() * kTileQueries);
  weight_.resize(maximum_.size());
  out_.resize(maximum_.size() * static_cast<size_t>(head_dim_));
}

template <typename Query, typename Cache>
void PagedAttentionTasks::attend(const PagedAttentionArgs<Query, Cache>& args, int64_t task) {
  attend_kernel<Query, Cache>()(
      args, tasks_[static_cast<size_t>(task)],
      {out_.data() + task * kTileQueries * head_dim_, maximum_.data() + task * kTileQueries,
       weight_.data() + task * kTileQueries});
}

template <typename Query, typename Cache>
void PagedAttentionTasks::merge(const PagedAttentionArgs<Query, Cache>& args, int64_t sequence) const {
  const auto at = static_cast<size_t>(sequence);
  int64_t next = 0;
  for (int64_t n = first_task_[at]; n < first_task_[at + 1]; n = next) {
    const AttentionTask& task = tasks_[static_cast<size_t>(n)];
    for (next = n + 1; next < first_task_[at + 1] && tasks_[static_cast<size_t>(next)].key_begin > 0;) ++next;
    const PartialSums splits{const_cast<float*>(out_.data()) + n * kTileQueries * head_dim_,
                             const_cast<float*>(maximum_.data()) + n * kTileQueries,
                             const_cast<float*>(weight_.data()) + n * kTileQueries};
    merge_splits(splits, next - n, task.num_heads, head_dim_,
                 args.out + (sequence * args.num_heads + task.first_head) * head_dim_);
  }
}

template <typename Query, typename Cache>
void run_attention(const PagedAttentionArgs<Query, Cache>& args) {
  PagedAttentionTasks tasks(args.layout, {args.lengths, static_cast<size_t>(args.batch)}, args.num_heads);
  parallel_items(tasks.num_tasks(), tasks.work(), [&](int64_t n) { tasks.attend(args, n); });
  parallel_for(args.batch, args.num_heads * args.layout.head_dim, [&](int64_t begin, int64_t end) {
    for (int64_t sequence = begin; sequence < end; ++sequence) tasks.merge(args, sequence);
  });
}

template <typename Args, typename Kernel>
void run_store(Kernel kernel, const Args& args) {
  check_layout(args.layout);
  parallel_for(args.rows, args.layout.num_kv_heads * args.layout.head_dim,
               [&](int64_t begin, int64_t end) { kernel(args, begin, end); });
}

}  // namespace

void paged_attention(const PagedAttentionArgs<float, float>& args) { run_attention(args); }
void paged_attention(const PagedAttentionArgs<float, BFloat16>& args) { run_attention(args); }
void paged_attention(const PagedAttentionArgs<BFloat16, BFloat16>& args) { run_attention(args); }

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
