// `calyrex train`: trains an adapter from a configuration file.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "calyrex/base/error.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/torch_part.h"

namespace calyrex::cli {
namespace {

struct TrainOptions {
  std::string config;
  std::vector<std::string> overrides;
  bool restart = false;
  bool settings = false;
};

void run_train(const TrainOptions& options) {
  if (options.settings) {
    fmt::print("{}", torch_part().document_train_config());
    return;
  }
  if (options.config.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "no configuration file; write: calyrex train CONFIG.yaml [key=value ...] (--settings lists the "
         "keys)");
  }
  torch_part().train(
      {.config_path = options.config, .overrides = options.overrides, .restart = options.restart});
}

}  // namespace

void add_train_command(CLI::App& app, Run& run) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train an adapter; an unfinished run is continued");
  command->add_option("config", options->config, "YAML file of settings (docs/configuration.md)");
  command->add_option("overrides", options->overrides, "Settings that replace the file's, as train.epochs=2");
  command->add_flag("--restart", options->restart,
                    "Remove what an earlier run left in the output and begin anew");
  command->add_flag("--settings", options->settings,
                    "Print every setting with its default and meaning, and exit");
  command->callback([options, &run] { run = [options] { run_train(*options); }; });
}

}  // namespace calyrex::cli
