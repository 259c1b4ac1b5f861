// The threads of one OpenMP region going through a list of phases: a forward pass is one region, not
// hundreds.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>

namespace calyrex::kernels {

/// One thread of a team.
class TeamMember {
 public:
  struct Shared {
    alignas(64) std::atomic<uint64_t> ticket{0};  // phase << 32 | the next piece of it
    alignas(64) std::atomic<uint32_t> done{0};    // pieces of the phase that are finished
    alignas(64) std::atomic<uint32_t> phase{0};   // phases before this one are finished
    std::atomic<uint32_t> sleeping{0};
  };
  TeamMember(Shared& shared, int size) : shared_(shared), size_(size) {}

  int size() const { return size_; }

  /// Calls f(begin, end) on ranges that together cover [0, items), each taken by the next free thread, and
  /// returns when all are finished; what they wrote is then seen. Every thread calls it with the same
  /// arguments. A thread that has lost its core for a while holds the others up with the range it has begun,
  /// not with phases to come: those are finished without it, and it skips them.
  template <typename Function>
  void phase(int64_t items, const Function& f) {
    if (items <= 0) return;
    const auto pieces = static_cast<uint32_t>(std::min<int64_t>(items, size_ == 1 ? 1 : kPieces * size_));
    for (int64_t piece = take(pieces); piece >= 0; piece = take(pieces)) {
      f(items * piece / pieces, items * (piece + 1) / pieces);
      finish(pieces);
    }
    wait();
    ++phase_;
  }

 private:
  static constexpr int64_t kPieces = 3;  // a thread takes when all are equally fast

  /// The next piece of this thread's phase, -1 = none is left.
  int64_t take(uint32_t pieces);
  void finish(uint32_t pieces);
  /// Spins for some microseconds, then sleeps: a thread without a core needs the time more than one that
  /// waits.
  void wait();

  Shared& shared_;
  const int size_;
  uint32_t phase_ = 0;
};

/// Calls f on every thread of the OpenMP team at the same time. f must not throw, and all threads must go
/// through the same phases. Kernels called inside run on the calling thread alone.
void run_team(const std::function<void(TeamMember&)>& f);

}  // namespace calyrex::kernels
