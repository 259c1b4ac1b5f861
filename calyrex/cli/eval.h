// The commands of the group `eval`.
#pragma once

#include "calyrex/cli/command.h"

namespace calyrex::cli {

void add_eval_run_command(CLI::App& eval, Run& run);
void add_eval_compare_command(CLI::App& eval, Run& run);
void add_eval_judge_command(CLI::App& eval, Run& run);

}  // namespace calyrex::cli
