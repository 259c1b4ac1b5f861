// Sharing a kernel's work among the threads of the one OpenMP team. For the .cc files of this folder only:
// users of the kernels need not compile for OpenMP.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include <omp.h>

namespace calyrex::kernels {

/// Elements below which waking the team costs more than it saves.
inline constexpr int64_t kMinParallelWork = 1 << 15;

/// Threads to share `work` elements among: all or one, since the runtime ends and restarts its threads
/// whenever the size of the team changes.
inline int team_size(int64_t work) {
  return work < kMinParallelWork || omp_in_parallel() != 0 ? 1 : omp_get_max_threads();
}

/// Calls f(begin, end) on disjoint ranges covering [0, count); an item is `work_per_item` elements. f must
/// not throw.
template <typename Function>
void parallel_for(int64_t count, int64_t work_per_item, Function&& f) {
  if (count <= 0) return;
  const int team = count == 1 ? 1 : team_size(count * work_per_item);
  if (team == 1) {
    f(int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(team)
  {
    const int64_t threads = omp_get_num_threads();
    const int64_t thread = omp_get_thread_num();
    const int64_t begin = count * thread / threads;
    const int64_t end = count * (thread + 1) / threads;
    if (begin < end) f(begin, end);
  }
}

/// Calls f(item) for every item of [0, count), each taken by the next free thread: for items of unequal cost.
template <typename Function>
void parallel_items(int64_t count, int64_t total_work, Function&& f) {
  const int team = count <= 1 ? 1 : team_size(total_work);
  if (team == 1) {
    for (int64_t item = 0; item < count; ++item) f(item);
    return;
  }
  std::atomic<int64_t> next{0};
#pragma omp parallel num_threads(team)
  {
    for (int64_t item = next.fetch_add(1); item < count; item = next.fetch_add(1)) f(item);
  }
}

/// Row blocks whose partial sums are added in order, so that a sum over rows is the same for any number of
/// threads.
struct RowBlocks {
  explicit RowBlocks(int64_t rows) {
    constexpr int64_t kMinRows = 32;
    constexpr int64_t kMaxBlocks = 64;
    size = std::max(kMinRows, (rows + kMaxBlocks - 1) / kMaxBlocks);
    count = (rows + size - 1) / size;
  }
  int64_t size = 0;
  int64_t count = 0;
};

/// total[c] += sum over blocks of partial[block, c], block by block.
inline void add_row_blocks(const float* partial, int64_t blocks, int64_t columns, float* total) {
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t c = 0; c < columns; ++c) total[c] += partial[block * columns + c];
  }
}

}  // namespace calyrex::kernels
