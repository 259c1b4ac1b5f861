#include "calyrex/kernels/team.h"

#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <omp.h>

namespace calyrex::kernels {
namespace {

TEST(TeamTest, RangesCoverEveryItemOnce) {
  for (const int64_t items : {0, 1, 2, 5, 1001}) {
    std::vector<int> hits(static_cast<size_t>(items));
    run_team([&](TeamMember& member) {
      member.phase(items, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) ++hits[static_cast<size_t>(n)];
      });
    });
    EXPECT_EQ(hits, std::vector<int>(hits.size(), 1));
  }
}

TEST(TeamTest, PhasesFollowEachOtherEvenWithMoreThreadsThanCores) {
  for (const int threads : {1, 2, 2 * omp_get_num_procs() + 1}) {
    omp_set_num_threads(threads);
    // Each phase reads what another range of the one before wrote.
    std::vector<int64_t> values(100), next(100);
    run_team([&](TeamMember& member) {
      for (int64_t round = 0; round < 500; ++round) {
        member.phase(100, [&](int64_t begin, int64_t end) {
          for (int64_t n = begin; n < end; ++n) {
            next[static_cast<size_t>(n)] = values[static_cast<size_t>(99 - n)] + 1;
          }
        });
        member.phase(100, [&](int64_t begin, int64_t end) {
          for (int64_t n = begin; n < end; ++n) values[static_cast<size_t>(n)] = next[static_cast<size_t>(n)];
        });
      }
    });
    EXPECT_EQ(values, std::vector<int64_t>(100, 500)) << threads;
  }
  omp_set_num_threads(omp_get_num_procs());
}

TEST(TeamTest, ThreadThatIsAwayMissesNothingAndHoldsNobodyUp) {
  omp_set_num_threads(2);
  std::vector<int64_t> counts(300);
  std::atomic<bool> first{true};
  std::atomic<int64_t> finished_while_away{0};
  run_team([&](TeamMember& member) {
    const bool away = first.exchange(false);
    // As if its core had been taken before the first phase.
    if (away) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (away) finished_while_away = counts.back();
    for (int64_t& count : counts) member.phase(1, [&](int64_t, int64_t) { ++count; });
  });
  EXPECT_EQ(counts, std::vector<int64_t>(300, 1));
  EXPECT_EQ(finished_while_away, 1);
  omp_set_num_threads(omp_get_num_procs());
}

}  // namespace
}  // namespace calyrex::kernels
