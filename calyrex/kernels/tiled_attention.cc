#include "calyrex/kernels/tiled_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "calyrex/base/error.h"
#include "calyrex/kernels/attention_block.h"
#include "calyrex/kernels/cpu_target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "calyrex/kernels/tiled_attention.cc"
#include <hwy/foreach_target.h>

#include "calyrex/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calyrex::kernels::HWY_NAMESPACE {

void scale_query(const float* query, float factor, int64_t head_dim, float* to) {
  const FloatTag d;
  for_each_vector(d, head_dim, [&](int64_t at, auto extent) HWY_ATTR {
    store(d, hn::Mul(load(d, query + at, extent), hn::Set(d, factor)), to + at, extent);
  });
}

/// The even and the odd elements of pairs, as floats.
struct Pair {
  FloatVec even, odd;
};
template <typename Extent>
HWY_INLINE Pair load_pairs(FloatTag d, const BFloat16* from, Extent extent) {
  const hn::Rebind<uint32_t, FloatTag> d32;
  const auto bits = hn::BitCast(d32, load(d, reinterpret_cast<const float*>(from), extent));
  return {hn::BitCast(d, hn::ShiftLeft<16>(bits)), hn::BitCast(d, hn::And(bits, hn::Set(d32, 0xffff0000u)))};
}

template <int kRows>
HWY_INLINE void score_rows(const AttentionBlock& block, int64_t row, int64_t pages) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t at = 0; at < pages * kPageKeys; at += lanes) {
    const BFloat16* keys = block.k_pages[at / kPageKeys] + at % kPageKeys * 2;
    FloatVec sums[kRows];
    for (int r = 0; r < kRows; ++r) sums[r] = hn::Zero(d);
    for (int64_t c = 0; c < block.head_dim; c += 2) {
      const Pair key = load_pairs(d, keys + c * kPageKeys, Whole{});
      for (int r = 0; r < kRows; ++r) {
        const float* query = block.queries + (row + r) * block.head_dim + c;
        sums[r] = hn::MulAdd(key.even, hn::Set(d, query[0]), sums[r]);
        sums[r] = hn::MulAdd(key.odd, hn::Set(d, query[1]), sums[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) hn::StoreU(sums[r], d, block.scores + (row + r) * kBlockKeys + at);
  }
}

/// Turns a row's scores into weights and returns the factor for what was summed before.
HWY_INLINE float weigh_row(const AttentionBlock& block, int64_t row, int64_t pages) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float* scores = block.scores + row * kBlockKeys;
  const int64_t keys = pages * kPageKeys;
  std::fill(scores + block.visible[row], scores + keys, -std::numeric_limits<float>::infinity());
  FloatVec best = hn::Set(d, block.maximum[row]);
  for (int64_t at = 0; at < keys; at += lanes) best = hn::Max(best, hn::LoadU(d, scores + at));
  const FloatVec top = hn::MaxOfLanes(d, best);
  FloatVec sum = hn::Zero(d);
  const FloatVec ln2 = hn::Set(d, 0.69314718f);
  for (int64_t at = 0; at < keys; at += lanes) {
    const FloatVec e = exp_or_nan(d, hn::Mul(hn::Sub(hn::LoadU(d, scores + at), top), ln2));
    sum = hn::Add(sum, e);
    hn::StoreU(e, d, scores + at);
  }
  const float maximum = hn::GetLane(top);
  const float factor = std::exp2(block.maximum[row] - maximum);
  block.weight[row] = block.weight[row] * factor + hn::GetLane(hn::SumOfLanes(d, sum));
  block.maximum[row] = maximum;
  return factor;
}

template <int kRows>
HWY_INLINE void add_values(const AttentionBlock& block, int64_t row, const float* factors) {
  const FloatTag d;
  const int64_t keys = block.visible[row + kRows - 1];
  for_each_vector(d, block.head_dim, [&](int64_t at, auto extent) HWY_ATTR {
    FloatVec sums[kRows];
    for (int r = 0; r < kRows; ++r) {
      sums[r] =
          hn::Mul(load(d, block.out + (row + r) * block.head_dim + at, extent), hn::Set(d, factors[row + r]));
    }
    for (int64_t key = 0; key < keys; key += 2) {
      const BFloat16* values =
          block.v_pages[key / kPageKeys] + (key % kPageKeys / 2 * block.head_dim + at) * 2;
      const Pair value = load_pairs(d, values, extent);
      const float* weights = block.scores + row * kBlockKeys + key;
      for (int r = 0; r < kRows; ++r) {
        sums[r] = hn::MulAdd(value.even, hn::Set(d, weights[r * kBlockKeys]), sums[r]);
        // What lies behind the last key was perhaps never written.
        if (key + 1 < keys) {
          sums[r] = hn::MulAdd(value.odd, hn::Set(d, weights[r * kBlockKeys + 1]), sums[r]);
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      store(d, sums[r], block.out + (row + r) * block.head_dim + at, extent);
    }
  });
}

/// Asks for some elements in the second-level cache.
HWY_INLINE void fetch(const BFloat16* from, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(BFloat16);
  for (int64_t at = 0; at < count; at += kLine) __builtin_prefetch(from + at, /*rw=*/0, /*locality=*/2);
}

void attend_block(const AttentionBlock& block) {
  const int64_t pages = (block.visible[block.rows - 1] + kPageKeys - 1) / kPageKeys;
  for (int64_t page = 0; page < pages; ++page) {
    fetch(block.next_k_pages[page], kPageKeys * block.head_dim);
    fetch(block.next_v_pages[page], kPageKeys * block.head_dim);
  }
  int64_t row = 0;
  for (; row + 4 <= block.rows; row += 4) score_rows<4>(block, row, pages);
  for (; row < block.rows; ++row) score_rows<1>(block, row, pages);
  constexpr int64_t kRowsAtATime = 64;
  float factors[kRowsAtATime];
  CALYREX_CHECK(block.rows <= kRowsAtATime);
  for (row = 0; row < block.rows; ++row) factors[row] = weigh_row(block, row, pages);
  for (row = 0; row + 4 <= block.rows; row += 4) add_values<4>(block, row, factors);
  for (; row < block.rows; ++row) add_values<1>(block, row, factors);
}

/// to = to * keep + from * add
void fold_sums(const float* from, float keep, float add, int64_t count, float* to) {
  const FloatTag d;
  for_each_vector(d, count, [&](int64_t at, auto extent) HWY_ATTR {
    const FloatVec kept = hn::Mul(load(d, to + at, extent), hn::Set(d, keep));
    store(d, hn::MulAdd(load(d, from + at, extent), hn::Set(d, add), kept), to + at, extent);
  });
}

/// Rounded to two bfloat16 values a pair, spread over the places of a page.
void store_pairs_of_position(const PairedLayout& layout, const float* k, const float* v, int64_t offset,
                             BFloat16* k_page, BFloat16* v_page) {
  const FloatTag d;
  BFloat16 key[kMaxTiledHeadDim], value[kMaxTiledHeadDim];
  const int64_t dim = layout.head_dim;
  for (int64_t head = 0; head < layout.num_kv_heads; ++head) {
    for_each_vector(d, dim, [&](int64_t at, auto extent) HWY_ATTR {
      store(d, load(d, k + head * dim + at, extent), key + at, extent);
      store(d, load(d, v + head * dim + at, extent), value + at, extent);
    });
    BFloat16* keys = k_page + head * layout.head_elements() + offset * 2;
    for (int64_t c = 0; c < dim; c += 2) std::memcpy(keys + c * kPageKeys, key + c, 2 * sizeof(BFloat16));
    BFloat16* values = v_page + head * layout.head_elements() + offset / 2 * 2 * dim + offset % 2;
    for (int64_t c = 0; c < dim; ++c) values[2 * c] = value[c];
  }
}

}  // namespace calyrex::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calyrex::kernels {
namespace {

HWY_EXPORT(scale_query);
HWY_EXPORT(attend_block);
HWY_EXPORT(fold_sums);
HWY_EXPORT(store_pairs_of_position);

/// Keys whose sums are merged into those of the keys before; tasks of few queries take a stretch each.
constexpr int64_t kStretchKeys = 256;
/// Rows (queries times heads) that meet a block of keys while it is in the first-level cache.
constexpr int64_t kTileRows = 48;
constexpr float kNoKeys = -std::numeric_limits<float>::infinity();

AttentionKernels choose_kernels() {
  if (cpu_target() == "avx512") {
    const AttentionKernels kernels = attention_kernels_bf16();
    if (kernels.attend != nullptr) return kernels;
  }
  return {&CALYREX_KERNELS_DISPATCH(scale_query), &CALYREX_KERNELS_DISPATCH(attend_block)};
}

int64_t stretches_of(int64_t keys) { return (keys + kStretchKeys - 1) / kStretchKeys; }

template <typename T>
void grow(std::vector<T>& values, int64_t count) {
  if (static_cast<int64_t>(values.size()) < count) values.resize(static_cast<size_t>(count));
}

}  // namespace

/// Running sums of some rows.
struct TiledAttention::Sums {
  float* out;      // [rows, head_dim]
  float* maximum;  // [rows]
  float* weight;   // [rows]

  void clear(int64_t rows, int64_t head_dim) const {
    std::fill(out, out + rows * head_dim, 0.0f);
    std::fill(maximum, maximum + rows, kNoKeys);
    std::fill(weight, weight + rows, 0.0f);
  }

  Sums from(int64_t row, int64_t head_dim) const {
    return {out + row * head_dim, maximum + row, weight + row};
  }

  /// Takes in the sums of later keys.
  void fold(const Sums& later, int64_t rows, int64_t head_dim) const {
    const auto fold_row = CALYREX_KERNELS_DISPATCH(fold_sums);
    for (int64_t r = 0; r < rows; ++r) {
      const float top = std::max(maximum[r], later.maximum[r]);
      const float keep = std::exp2(maximum[r] - top);
      const float add = std::exp2(later.maximum[r] - top);
      weight[r] = weight[r] * keep + later.weight[r] * add;
      maximum[r] = top;
      fold_row(later.out + r * head_dim, keep, add, head_dim, out + r * head_dim);
    }
  }
};

void store_paired(const PairedLayout& layout, const float* k, const float* v, int64_t slot, BFloat16* k_pages,
                  BFloat16* v_pages) {
  const int64_t page = slot / kPageKeys * layout.page_elements();
  CALYREX_KERNELS_DISPATCH(store_pairs_of_position)
  (layout, k, v, slot % kPageKeys, k_pages + page, v_pages + page);
}

bool TiledAttention::fits(const PairedLayout& layout, int64_t num_heads) {
  const auto [kv_heads, dim] = layout;
  return dim > 0 && dim % 8 == 0 && dim <= kMaxTiledHeadDim && kv_heads > 0 && num_heads > 0 &&
         num_heads % kv_heads == 0 && num_heads / kv_heads <= kTileRows;
}

TiledAttention::TiledAttention(const PairedLayout& layout, int64_t num_heads, std::vector<AttentionRun> runs)
    : layout_(layout), num_heads_(num_heads), runs_(std::move(runs)) {
  CALYREX_CHECK(fits(layout, num_heads), "{} heads over {} of {}", num_heads, layout.num_kv_heads,
                layout.head_dim);
  for (size_t run = 0; run < runs_.size(); ++run) add_run(static_cast<int64_t>(run));
  balance();
  out_.resize(static_cast<size_t>(num_partials_ * layout_.head_dim));
  maximum_.resize(static_cast<size_t>(num_partials_));
  weight_.resize(maximum_.size());
}

void TiledAttention::add_run(int64_t index) {
  const AttentionRun& run = runs_[static_cast<size_t>(index)];
  CALYREX_CHECK(run.count > 0 && run.first_visible > 0 &&
                    static_cast<int64_t>(run.pages.size()) * kPageKeys >= run.visible(run.count - 1),
                "{} queries see {} keys", run.count, run.first_visible);
  first_rows_.push_back(num_rows());
  const int64_t tile_queries = kTileRows / group();
  // Many tiles keep all threads busy; a single one is shared among them.
  const bool split = run.count <= tile_queries;
  for (int64_t first = 0; first < run.count; first += tile_queries) {
    const int64_t count = std::min(tile_queries, run.count - first);
    const int64_t stretches = stretches_of(run.visible(first + count - 1));
    const int64_t rows = count * group();
    const bool merged = split && stretches > 1;
    for (int64_t n = 0; n < count; ++n) {
      row_merges_.push_back(
          {num_partials_ + n * group(), merged ? stretches_of(run.visible(first + n)) : 0, rows});
    }
    // The heads of a page lie side by side.
    for (int64_t s = 0; s < (merged ? stretches : 1); ++s) {
      for (int64_t kv_head = 0; kv_head < layout_.num_kv_heads; ++kv_head) {
        if (merged) {
          tasks_.push_back({index, first, count, kv_head, s, s + 1, num_partials_});
          num_partials_ += rows;
        } else {
          tasks_.push_back({index, first, count, kv_head, 0, stretches, -1});
        }
      }
    }
  }
}

/// Threads take ranges of tasks: costly and cheap ones alternate, so that ranges cost about the same.
void TiledAttention::balance() {
  const auto cost = [](const Task& task) { return (task.end - task.begin) * task.num_queries; };
  const auto as_first = [&](const Task& task) { return cost(task) == cost(tasks_.front()); };
  if (std::ranges::all_of(tasks_, as_first)) return;  // in this order they read memory in its order
  std::ranges::stable_sort(tasks_, std::greater<>(), cost);
  std::vector<Task> mixed;
  mixed.reserve(tasks_.size());
  for (size_t low = 0, high = tasks_.size(); low < high;) {
    mixed.push_back(tasks_[low++]);
    if (low < high) mixed.push_back(tasks_[--high]);
  }
  tasks_ = std::move(mixed);
}

int64_t TiledAttention::last_key(const Task& task) const {
  return runs_[static_cast<size_t>(task.run)].visible(task.first_query + task.num_queries - 1);
}

void TiledAttention::place_block(const TiledAttentionArgs& args, const Task& task, int64_t begin,
                                 const BFloat16** k_pages, const BFloat16** v_pages) const {
  const std::span<const int32_t> pages = runs_[static_cast<size_t>(task.run)].pages;
  const int64_t end = std::min(begin + kBlockKeys, last_key(task));
  for (int64_t n = 0; begin + n * kPageKeys < end; ++n) {
    const int64_t at = pages[static_cast<size_t>(begin / kPageKeys + n)] * layout_.page_elements() +
                       task.kv_head * layout_.head_elements();
    k_pages[n] = args.k_pages + at;
    v_pages[n] = args.v_pages + at;
  }
}

void TiledAttention::attend_stretch(const TiledAttentionArgs& args, int64_t index, int64_t stretch,
                                    const float* queries, float* scores, const Sums& sums) const {
  const auto attend = choose_kernels().attend;
  const Task& task = tasks_[static_cast<size_t>(index)];
  const AttentionRun& run = runs_[static_cast<size_t>(task.run)];
  const int64_t last = last_key(task);
  int32_t visible[kTileRows];
  for (int64_t begin = stretch * kStretchKeys; begin < std::min((stretch + 1) * kStretchKeys, last);
       begin += kBlockKeys) {
    const int64_t unseeing = run.causal ? std::max<int64_t>(0, begin + 1 - run.visible(task.first_query)) : 0;
    const int64_t first = unseeing * group();
    const Sums seeing = sums.from(first, layout_.head_dim);
    AttentionBlock block{.rows = task.num_queries * group() - first,
                         .head_dim = layout_.head_dim,
                         .queries = queries + first * layout_.head_dim,
                         .visible = visible,
                         .scores = scores,
                         .out = seeing.out,
                         .maximum = seeing.maximum,
                         .weight = seeing.weight};
    for (int64_t r = 0; r < block.rows; ++r) {
      const int64_t keys = run.visible(task.first_query + (first + r) / group()) - begin;
      visible[r] = static_cast<int32_t>(std::min(keys, kBlockKeys));
    }
    place_block(args, task, begin, block.k_pages, block.v_pages);
    std::copy_n(block.k_pages, kBlockPages, block.next_k_pages);
    std::copy_n(block.v_pages, kBlockPages, block.next_v_pages);
    if (const int64_t next = begin + kBlockKeys; next < std::min(task.end * kStretchKeys, last)) {
      place_block(args, task, next, block.next_k_pages, block.next_v_pages);
    } else if (index + 1 < num_tasks()) {
      const Task& following = tasks_[static_cast<size_t>(index + 1)];  // mostly of the same thread
      place_block(args, following, following.begin * kStretchKeys, block.next_k_pages, block.next_v_pages);
    }
    attend(block);
  }
}

void TiledAttention::attend(const TiledAttentionArgs& args, int64_t index) {
  const Task& task = tasks_[static_cast<size_t>(index)];
  const int64_t dim = layout_.head_dim;
  const int64_t rows = task.num_queries * group();
  const int64_t first_row = first_rows_[static_cast<size_t>(task.run)] + task.first_query;
  thread_local std::vector<float> room;
  grow(room, rows * (3 * dim + kBlockKeys + 4));
  float* queries = room.data();
  float* scores = queries + rows * dim;
  const Sums total{scores + rows * kBlockKeys, scores + rows * (kBlockKeys + dim),
                   scores + rows * (kBlockKeys + dim + 1)};
  const Sums next{total.weight + rows, total.weight + rows * (1 + dim), total.weight + rows * (2 + dim)};

  const auto prepare = choose_kernels().prepare;
  const auto factor = static_cast<float>(1.0 / std::log(2.0) / std::sqrt(static_cast<double>(dim)));
  const auto row_of = [&](int64_t r) {
    return ((first_row + r / group()) * num_heads_ + task.kv_head * group() + r % group()) * dim;
  };
  for (int64_t r = 0; r < rows; ++r) prepare(args.q + row_of(r), factor, dim, queries + r * dim);

  if (task.partial >= 0) {
    const Sums sums{out_.data() + task.partial * dim, maximum_.data() + task.partial,
                    weight_.data() + task.partial};
    sums.clear(rows, dim);
    attend_stretch(args, index, task.begin, queries, scores, sums);
    return;
  }
  total.clear(rows, dim);
  attend_stretch(args, index, 0, queries, scores, total);
  for (int64_t stretch = 1; stretch < task.end; ++stretch) {
    next.clear(rows, dim);
    attend_stretch(args, index, stretch, queries, scores, next);
    total.fold(next, rows, dim);
  }
  for (int64_t r = 0; r < rows; ++r) {
    CALYREX_KERNELS_DISPATCH(scale_query)
    (total.out + r * dim, 1.0f / total.weight[r], dim, args.out + row_of(r));
  }
}

void TiledAttention::merge(const TiledAttentionArgs& args, int64_t row) const {
  const RowMerge& merge = row_merges_[static_cast<size_t>(row)];
  if (merge.stretches == 0) return;
  const int64_t dim = layout_.head_dim;
  const Sums sums{const_cast<float*>(out_.data()), const_cast<float*>(maximum_.data()),
                  const_cast<float*>(weight_.data())};
  for (int64_t head = 0; head < num_heads_; ++head) {
    const int64_t first = merge.partial + head / group() * merge.tile_rows + head % group();
    float total[kMaxTiledHeadDim], maximum = kNoKeys, weight = 0.0f;
    const Sums all{total, &maximum, &weight};
    std::copy(out_.begin() + first * dim, out_.begin() + (first + 1) * dim, total);
    maximum = maximum_[static_cast<size_t>(first)];
    weight = weight_[static_cast<size_t>(first)];
    for (int64_t s = 1; s < merge.stretches; ++s) {
      all.fold(sums.from(first + s * layout_.num_kv_heads * merge.tile_rows, dim), 1, dim);
    }
    CALYREX_KERNELS_DISPATCH(scale_query)
    (total, 1.0f / weight, dim, args.out + (row * num_heads_ + head) * dim);
  }
}

}  // namespace calyrex::kernels
#endif  // HWY_ONCE
