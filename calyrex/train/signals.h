// Ctrl-C, SIGTERM and SIGUSR1 as a request to stop at a safe point.
#pragma once

#include <array>

#include <signal.h>

namespace calyrex::train {

/// While one exists, the first such signal sets a flag and the second ends the process at once with code 130
/// (files stay whole: every write is atomic). Inner ones (a run within a sweep) are the outermost one's; with
/// that the earlier handlers come back. Not thread-safe.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  static bool requested();
  /// Throws kCancelled when a signal has come.
  static void check();

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGUSR1};
  std::array<struct sigaction, kSignals.size()> previous_;
};

}  // namespace calyrex::train
