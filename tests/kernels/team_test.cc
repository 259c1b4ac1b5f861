#include "calyrex/kernels/team.h"

#include <vector>

#include <gtest/gtest.h>
#include <omp.h>

namespace calyrex::kernels {
namespace {

TEST(TeamTest, SharesCoverEveryItemOnce) {
  std::vector<int> hits(1001);
  run_team([&](TeamMember& member) {
    const IndexRange range = member.share(1001);
    for (int64_t n = range.begin; n < range.end; ++n) ++hits[static_cast<size_t>(n)];
  });
  EXPECT_EQ(hits, std::vector<int>(1001, 1));
}

TEST(TeamTest, BarrierSeparatesPhasesEvenWithMoreThreadsThanCores) {
  for (const int threads : {1, 2, 2 * omp_get_num_procs() + 1}) {
    omp_set_num_threads(threads);
    std::vector<int64_t> counts(static_cast<size_t>(threads));
    std::vector<int64_t> wrong(static_cast<size_t>(threads));
    run_team([&](TeamMember& member) {
      for (int64_t round = 1; round <= 500; ++round) {
        counts[static_cast<size_t>(member.index())] = round;
        member.barrier();
        for (const int64_t count : counts) wrong[static_cast<size_t>(member.index())] += count != round;
        member.barrier();
      }
    });
    EXPECT_EQ(wrong, std::vector<int64_t>(wrong.size(), 0)) << threads;
  }
  omp_set_num_threads(omp_get_num_procs());
}

}  // namespace
}  // namespace calyrex::kernels
