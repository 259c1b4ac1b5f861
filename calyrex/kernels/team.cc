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

int64_t TeamMember::take(uint32_t pieces) {
  uint64_t ticket = shared_.ticket.load(std::memory_order_acquire);
  while (true) {
    const auto next = static_cast<uint32_t>(ticket);
    if (ticket >> 32 != phase_ || next >= pieces) return -1;
    if (shared_.ticket.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                             std::memory_order_acquire)) {
      return next;
    }
  }
}

void TeamMember::finish(uint32_t pieces) {
  if (shared_.done.fetch_add(1, std::memory_order_acq_rel) + 1 != pieces) return;
  shared_.done.store(0, std::memory_order_relaxed);
  shared_.ticket.store((uint64_t{phase_} + 1) << 32, std::memory_order_release);
  // Either this thread sees who sleeps, or who goes to sleep sees the new phase.
  shared_.phase.store(phase_ + 1, std::memory_order_seq_cst);
  if (shared_.sleeping.load(std::memory_order_seq_cst) != 0) shared_.phase.notify_all();
}

void TeamMember::wait() {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (shared_.phase.load(std::memory_order_acquire) > phase_) return;
    relax();
  }
  shared_.sleeping.fetch_add(1, std::memory_order_seq_cst);
  for (uint32_t now = shared_.phase.load(std::memory_order_seq_cst); now <= phase_;
       now = shared_.phase.load(std::memory_order_seq_cst)) {
    shared_.phase.wait(now);
  }
  shared_.sleeping.fetch_sub(1, std::memory_order_seq_cst);
}

void run_team(const std::function<void(TeamMember&)>& f) {
  TeamMember::Shared shared;
#pragma omp parallel
  {
    TeamMember member(shared, omp_get_num_threads());
    f(member);
  }
}

}  // namespace calyrex::kernels
