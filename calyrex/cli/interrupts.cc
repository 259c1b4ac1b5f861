#include "calyrex/cli/interrupts.h"

#include <atomic>
#include <csignal>

#include <unistd.h>

#include "calyrex/base/error.h"

namespace calyrex::cli {
namespace {

std::atomic<bool> noted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "needed in a signal handler");

extern "C" void note_interrupt(int) {
  if (noted.exchange(true)) ::_exit(exit_code(ErrorCode::kCancelled));
}

}  // namespace

void catch_interrupts(std::initializer_list<int> signals) {
  struct sigaction action = {};
  action.sa_handler = note_interrupt;
  sigemptyset(&action.sa_mask);
  for (const int signal : signals) sigaction(signal, &action, nullptr);
}

bool interrupted() { return noted; }

void forget_interrupt() { noted = false; }

}  // namespace calyrex::cli
