// The threads of one OpenMP region working in step: a forward pass is one region, not hundreds.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace calyrex::kernels {

struct IndexRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// One thread of a team.
class TeamMember {
 public:
  struct Shared {
    std::atomic<uint32_t> arrived{0};
    std::atomic<uint32_t> round{0};
    std::atomic<uint32_t> sleeping{0};
  };
  TeamMember(Shared& shared, int index, int size) : shared_(shared), index_(index), size_(size) {}

  int index() const { return index_; }
  int size() const { return size_; }
  /// This thread's share of `count` items, the same in every call.
  IndexRange share(int64_t count) const { return {count * index_ / size_, count * (index_ + 1) / size_}; }
  /// Waits until all threads are here; what they wrote before is then seen. Spins for some microseconds, then
  /// sleeps: a thread that lost its core to a neighbour needs the time more than the one that waits.
  void barrier();

 private:
  Shared& shared_;
  const int index_;
  const int size_;
};

/// Calls f on every thread of the OpenMP team at the same time. f must not throw, and all threads must pass
/// the same barriers. Kernels called inside run on the calling thread alone.
void run_team(const std::function<void(TeamMember&)>& f);

}  // namespace calyrex::kernels
