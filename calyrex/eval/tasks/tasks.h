// The benchmarks, one function each; registry.cc lists them.
#pragma once

#include "calyrex/eval/core/task.h"

namespace calyrex::eval {}  // namespace calyrex::eval
