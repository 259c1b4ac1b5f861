#include "calyrex/train/signals.h"

#include <atomic>

#include <unistd.h>

#include "calyrex/base/error.h"

namespace calyrex::train {
namespace {

int num_nested = 0;
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "needed in a signal handler");

extern "C" void request_stop(int) {
  constexpr int kInterrupted = 130;
  if (stop_requested.exchange(true)) ::_exit(kInterrupted);
}

}  // namespace

StopSignals::StopSignals() {
  if (num_nested++ > 0) return;
  stop_requested = false;
  struct sigaction action = {};
  action.sa_handler = request_stop;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &previous_[i]);
}

StopSignals::~StopSignals() {
  if (--num_nested > 0) return;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
}

bool StopSignals::requested() { return stop_requested; }

void StopSignals::check() {
  if (requested()) fail(ErrorCode::kCancelled, "interrupted before training began");
}

}  // namespace calyrex::train
