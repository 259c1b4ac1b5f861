// Subcommands of `data` that have files of their own.
#pragma once

#include "calyrex/cli/command.h"

namespace calyrex::cli {

/// `build` is the group `data build`.
void add_mix_command(CLI::App& build, Run& run);
/// `data_group` is the group `data`.
void add_data_stats_command(CLI::App& data_group, Run& run);
void add_data_preview_command(CLI::App& data_group, Run& run);

}  // namespace calyrex::cli
