// `calyrex adapter init`: a new adapter, which changes nothing until it is trained.
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "calyrex/base/error.h"
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/torch_part.h"

namespace calyrex::cli {

void add_adapter_init_command(CLI::App& adapter, Run& run) {
  const auto request = std::make_shared<AdapterInitRequest>();
  CLI::App* command = adapter.add_subcommand("init", "Write a new adapter: the base model bit for bit");
  command->add_option("--model", request->model, "Folder, .gguf file, org/name, or default")
      ->capture_default_str();
  command->add_option("--kind", request->kind, "cal, lora or parallel_mlp")->capture_default_str();
  CLI::Option* placement =
      command
          ->add_option("--placement", request->placement, "Preset, or layers such as [25,27]; not for lora")
          ->capture_default_str();
  command->add_option("--output", request->output, "Folder to write")->required();
  command->add_option("--seed", request->seed, "Seed of the weights")
      ->check(whole_number<uint64_t>())
      ->capture_default_str();
  command->add_option(
      "--set", request->settings,
      "Adapter setting (docs/configuration.md) such as cal.intermediate_size=128; repeatable");
  command->callback([request, placement, &run] {
    run = [request, placed = placement->count() > 0] {
      if (placed && request->kind == "lora") {
        fail(ErrorCode::kInvalidArgument, "--placement {}: LoRA works in the layers themselves; leave it out",
             request->placement);
      }
      torch_part().init_adapter(*request);
    };
  });
}

}  // namespace calyrex::cli
