#include "calyrex/cli/commands.h"

#include <CLI/CLI.hpp>

namespace calyrex::cli {

void add_commands(CLI::App& app, Run& run) {
  add_demo_command(app, run);
  add_train_command(app, run);
  add_generate_command(app, run);
  add_chat_command(app, run);
  add_score_command(app, run);
  add_data_command(app, run);
  add_render_command(app, run);
  add_bench_command(app, run);
  add_eval_command(app, run);
  add_study_command(app, run);
  add_analyze_command(app, run);
  CLI::App* adapter = app.add_subcommand("adapter", "Make and inspect adapters");
  adapter->require_subcommand(1);
  add_adapter_init_command(*adapter, run);
  add_adapter_info_command(*adapter, run);
  CLI::App* model = app.add_subcommand("model", "Inspect models");
  model->require_subcommand(1);
  add_model_info_command(*model, run);
}

}  // namespace calyrex::cli
