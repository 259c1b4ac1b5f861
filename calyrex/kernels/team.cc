#include "calyrex/kernels/team.h"

#include <hwy/base.h>
#include <omp.h>

#if HWY_ARCH_X86
#include <immintrin.h>
#endif

namespace calyrex::kernels {
namespace {

/// About 50 microseconds: longer than a phase of one token's pass, far shorter than a time slice.
constexpr int kSpins = 2500;

void relax() {
#if HWY_ARCH_X86
  _mm_pause();
#endif
}

}  // namespace

void TeamMember::barrier() {
  if (size_ == 1) return;
  const uint32_t round = shared_.round.load(std::memory_order_relaxed);
  if (shared_.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(size_)) {
    shared_.arrived.store(0, std::memory_order_relaxed);
    shared_.round.store(round + 1, std::memory_order_seq_cst);
    if (shared_.sleeping.load(std::memory_order_seq_cst) != 0) shared_.round.notify_all();
    return;
  }
  for (int spin = 0; spin < kSpins; ++spin) {
    if (shared_.round.load(std::memory_order_acquire) != round) return;
    relax();
  }
  // Either the last thread sees this one counted, or this one sees the new round before it sleeps.
  shared_.sleeping.fetch_add(1, std::memory_order_seq_cst);
  while (shared_.round.load(std::memory_order_seq_cst) == round) shared_.round.wait(round);
  shared_.sleeping.fetch_sub(1, std::memory_order_seq_cst);
}

void run_team(const std::function<void(TeamMember&)>& f) {
  TeamMember::Shared shared;
#pragma omp parallel
  {
    TeamMember member(shared, omp_get_thread_num(), omp_get_num_threads());
    f(member);
  }
}

}  // namespace calyrex::kernels
