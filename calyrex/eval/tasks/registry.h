// All benchmarks by name.
#pragma once

#include <string_view>
#include <vector>

#include "calyrex/eval/core/task.h"

namespace calyrex::eval {

/// In the order of `eval list`.
const std::vector<const Task*>& all_tasks();

/// The task of that name; kNotFound names the nearest.
const Task& find_task(std::string_view name);

}  // namespace calyrex::eval
