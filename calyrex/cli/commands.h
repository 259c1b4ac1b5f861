// The commands. Each adds its subcommand to `app` (or to its group) and, when that is chosen, sets `run`;
// options live in a shared struct that the callback captures.
#pragma once

#include "calyrex/cli/command.h"

namespace calyrex::cli {

/// Adds every command, with the groups `adapter` and `model`, in the order of the help.
void add_commands(CLI::App& app, Run& run);

void add_chat_command(CLI::App& app, Run& run);
void add_generate_command(CLI::App& app, Run& run);
void add_score_command(CLI::App& app, Run& run);
void add_analyze_command(CLI::App& app, Run& run);
void add_bench_command(CLI::App& app, Run& run);
void add_data_command(CLI::App& app, Run& run);
/// The group `eval`: run, list, info, compare.
void add_eval_command(CLI::App& app, Run& run);
void add_demo_command(CLI::App& app, Run& run);
void add_render_command(CLI::App& app, Run& run);
/// The group `study`: run, report, scale.
void add_study_command(CLI::App& app, Run& run);
void add_train_command(CLI::App& app, Run& run);
/// `adapter` is the group of that name.
void add_adapter_init_command(CLI::App& adapter, Run& run);
void add_adapter_info_command(CLI::App& adapter, Run& run);
/// `model` is the group of that name.
void add_model_info_command(CLI::App& model, Run& run);

}  // namespace calyrex::cli
