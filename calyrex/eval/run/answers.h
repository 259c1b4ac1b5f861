// Answers that exist already, matched to a task's samples.
#pragma once

#include <filesystem>

#include "calyrex/eval/run/runner.h"

namespace calyrex::eval {

/// Reads lines {"id" or "key" or "prompt", "response"} in any order and keeps the samples that have an
/// answer. A response is a string, or a list of strings when the sample asks several times. An id or key is
/// tried first, then the prompt (whole, or its last user message). Returns how many samples had no answer.
/// Throws kInvalidArgument with file:line for a line that matches no sample, matches several, or answers one
/// again; kUnsupported for a task that scores given answers.
int64_t attach_answers(LoadedTask& task, const std::filesystem::path& path);

}  // namespace calyrex::eval
