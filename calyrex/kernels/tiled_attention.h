// Attention of runs of queries to a paged cache whose pages are laid out for products of pairs: prompts,
// chunks behind a prefix, and single tokens alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "calyrex/kernels/bfloat16.h"

namespace calyrex::kernels {

/// A cache of pages of 16 consecutive positions. For each key/value head of a page, keys lie as
/// [head_dim / 2, 16, 2] (two neighbouring elements of a key side by side) and values as [8, head_dim, 2]
/// (the same element of two neighbouring positions side by side).
struct PairedLayout {
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;  // a multiple of 8, at most 256

  static constexpr int64_t kPageSize = 16;
  int64_t head_elements() const { return kPageSize * head_dim; }
  int64_t page_elements() const { return num_kv_heads * head_elements(); }
};

/// Writes the key and the value of one position, each [num_kv_heads, head_dim], to slot page * 16 + offset.
/// Different slots may be written at the same time. On the calling thread.
void store_paired(const PairedLayout& layout, const float* k, const float* v, int64_t slot, BFloat16* k_pages,
                  BFloat16* v_pages);

/// Consecutive rows of queries of one sequence. Row n sees the first `first_visible` keys, plus n if causal.
struct AttentionRun {
  int64_t count = 0;
  std::span<const int32_t> pages;  // of the sequence's keys; owned by others
  int64_t first_visible = 0;       // at least 1
  bool causal = false;

  int64_t visible(int64_t n) const { return first_visible + (causal ? n : 0); }
};

struct TiledAttentionArgs {
  const float* q = nullptr;           // [rows, num_heads, head_dim]
  const BFloat16* k_pages = nullptr;  // [pages, PairedLayout]
  const BFloat16* v_pages = nullptr;
  float* out = nullptr;  // [rows, num_heads, head_dim]
};

/// softmax(q K^T / sqrt(head_dim)) V for each row of some runs; query head h uses key/value head
/// h / (num_heads / num_kv_heads). Online softmax over blocks of 64 keys ("FlashAttention", Dao et al.,
/// 2022), in stretches of 256 keys that are merged in order: a row's bits depend on its own query and keys
/// alone, not on how the rows are cut into runs, nor on threads. Products take bfloat16 operands where the
/// processor has them, else float32.
///
/// For callers that bring their own threads and attend again and again in the same way (layer after layer),
/// in two phases: attend() once for each task, then merge() once for each row. Calls of one phase may run at
/// the same time.
class TiledAttention {
 public:
  TiledAttention() = default;
  /// Whether the kernels take these sizes.
  static bool fits(const PairedLayout& layout, int64_t num_heads);
  /// The rows of all runs, one run after the other.
  TiledAttention(const PairedLayout& layout, int64_t num_heads, std::vector<AttentionRun> runs);

  int64_t num_tasks() const { return static_cast<int64_t>(tasks_.size()); }
  int64_t num_rows() const { return static_cast<int64_t>(row_merges_.size()); }

  void attend(const TiledAttentionArgs& args, int64_t task);
  void merge(const TiledAttentionArgs& args, int64_t row) const;

 private:
  /// Some queries of one run, for all heads that share a key/value head, and the stretches of keys they look
  /// at.
  struct Task {
    int64_t run = 0;
    int64_t first_query = 0;  // in the run
    int64_t num_queries = 0;
    int64_t kv_head = 0;
    int64_t begin = 0, end = 0;  // stretches
    int64_t partial = -1;        // the first of its rows in the partial sums; -1: it is finished at once
  };
  /// Where the partial sums of one row are.
  struct RowMerge {
    int64_t partial = 0;    // of its first head and stretch
    int64_t stretches = 0;  // 0: there is nothing to merge
    int64_t tile_rows = 0;
  };

  int64_t group() const { return num_heads_ / layout_.num_kv_heads; }
  void add_run(int64_t run);
  void balance();
  int64_t last_key(const Task& task) const;
  /// The pages of the task's keys from `begin` on, at most a block.
  void place_block(const TiledAttentionArgs& args, const Task& task, int64_t begin, const BFloat16** k_pages,
                   const BFloat16** v_pages) const;
  /// Attends to one stretch with all rows of a task that see it.
  struct Sums;
  void attend_stretch(const TiledAttentionArgs& args, int64_t task, int64_t stretch, const float* queries,
                      float* scores, const Sums& sums) const;

  PairedLayout layout_;
  int64_t num_heads_ = 0;
  std::vector<AttentionRun> runs_;
  std::vector<int64_t> first_rows_;  // of the runs
  std::vector<Task> tasks_;
  std::vector<RowMerge> row_merges_;
  int64_t num_partials_ = 0;
  std::vector<float> out_;      // [partials, head_dim], not yet divided by the weight
  std::vector<float> maximum_;  // [partials]
  std::vector<float> weight_;   // [partials]
};

}  // namespace calyrex::kernels
