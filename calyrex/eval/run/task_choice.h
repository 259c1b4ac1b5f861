// A task as flags and study files name it, and what it is loaded with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "calyrex/eval/core/task.h"

namespace calyrex::eval {

/// Empty: as the task says.
struct TaskChoice {
  std::string task;
  std::filesystem::path data;  // its own folder or file, or a folder that holds TASK/
  bool sample = false;
  std::string form;  // a form's name, or the file that holds the system message
  std::optional<int> shots;
  std::string split;
  std::string axis;
  uint64_t seed = 0;
  bool judge = false;
};

/// Throws kNotFound for a task, or data, that are not there, kUnsupported for a form, split or axis that the
/// task lacks, naming what it has.
LoadOptions load_options(const Task& task, const TaskChoice& choice);

}  // namespace calyrex::eval
