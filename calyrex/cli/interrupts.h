// Ctrl-C for commands that finish something first.
#pragma once

#include <initializer_list>

namespace calyrex::cli {

/// From now on a first of these signals is only noted, without restarting a read that waits; a second one
/// ends the program with the exit code of an interrupt.
void catch_interrupts(std::initializer_list<int> signals);
bool interrupted();
/// The next one is a first one again.
void forget_interrupt();

}  // namespace calyrex::cli
