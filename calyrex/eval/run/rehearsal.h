// An evaluation without a model: blank replies lead through it, so that its length and metrics are known
// before anything is asked.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "calyrex/eval/run/runner.h"

namespace calyrex::eval {

/// Leads a sample to its end by blank replies; `asks` sees what each step asks. Returns the replies.
std::vector<Reply> walk_blankly(const Sample& sample,
                                const std::function<void(const std::vector<Ask>&)>& asks);

/// Names of the metrics that the task gives: its headline, and those of blank answers.
std::vector<std::string> rehearse(const LoadedTask& task);

}  // namespace calyrex::eval
