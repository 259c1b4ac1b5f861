// calyrex analyze: where a model keeps the rules of its system message, and what each CAL block does.
#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/model_flags.h"
#include "calyrex/cli/page.h"
#include "calyrex/cli/torch_part.h"

namespace calyrex::cli {
namespace {

struct AnalyzeFlags {
  ModelFlags model;
  AnalyzeRequest request;
  std::filesystem::path output;
  bool json = false;
};

std::string percent(const Json& estimate) {
  return fmt::format("{:.1f} % [{:.1f}, {:.1f}]", 100.0 * estimate["value"].get<double>(),
                     100.0 * estimate["low"].get<double>(), 100.0 * estimate["high"].get<double>());
}

void print_probe(const Json& report) {
  const Json& probe = report["probe"];
  fmt::print("{} rows, {} rules; the probe learns from {} rows and is tried on {} of other wordings\n",
             report["rows"].get<int64_t>(), probe["rules"].size(), probe["train_rows"].get<int64_t>(),
             probe["test_rows"].get<int64_t>());
  if (probe["test_rows"] == 0) {
    fmt::print("no probe: every rule has one row; a larger --limit takes more\n");
    return;
  }
  for (const char* subject : {"base", "adapter"}) {
    if (!probe.contains(subject)) continue;
    size_t best = 0;
    for (size_t i = 0; i < probe[subject].size(); ++i) {
      if (probe[subject][i]["value"] > probe[subject][best]["value"]) best = i;
    }
    fmt::print("{:<8} probe best after layer {}: {}; chance {:.1f} %\n", subject,
               report["layers"][best].get<std::string>(), percent(probe[subject][best]),
               100.0 * probe["chance"].get<double>());
  }
}

void print_switches(const Json& report) {
  if (report["switches"].is_null()) return;
  fmt::print("{:<26}{:>10}{:>12}   {}\n", "setting", "loss", "change", "rules kept");
  for (const Json& setting : report["switches"]["settings"]) {
    fmt::print("{:<26}{:>10.4f}{:>+12.4f}   {}\n", setting["name"].get<std::string>(),
               setting["loss"]["value"].get<double>(), setting["loss_change"]["value"].get<double>(),
               percent(setting["adherence"]));
  }
  if (report["swap"].is_null()) return;
  const Json& swap = report["swap"];
  fmt::print("span of another row: own rule kept {} -> {}, the other's {} -> {}\n",
             percent(swap["own"]["before"]), percent(swap["own"]["after"]), percent(swap["donor"]["before"]),
             percent(swap["donor"]["after"]));
}

void run_analyze(AnalyzeFlags flags) {
  AnalyzeRequest& request = flags.request;
  request.model = local_model_options(flags.model);
  if (!flags.model.adapter.empty()) {
    const AdapterArgument adapter = parse_adapter_argument(flags.model.adapter);
    request.adapter = adapter.path;
    request.scale = adapter.scale;
  }
  if (!path_exists(request.data)) fail(ErrorCode::kNotFound, "--data: no file {}", request.data.string());
  if (path_exists(flags.output) && !std::filesystem::is_directory(flags.output)) {
    fail(ErrorCode::kInvalidArgument, "--output: {} exists and is no folder", flags.output.string());
  }
  make_directories(flags.output);
  const Json report = torch_part().analyze(request);
  write_file_atomically(flags.output / "analysis.html", make_analysis_page(report));
  write_file_atomically(flags.output / "analysis.json", to_json_text(report));
  if (flags.json) {
    fmt::print("{}", to_json_text(report));
    return;
  }
  print_probe(report);
  print_switches(report);
  fmt::print("{}\n", (flags.output / "analysis.html").string());
}

}  // namespace

void add_analyze_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "analyze",
      "Probes, attention and blocks, layer by layer, on rows of `data build rules` (docs/analysis.md)");
  const auto flags = std::make_shared<AnalyzeFlags>();
  add_model_flags(*command, flags->model);
  AnalyzeRequest& request = flags->request;
  command->add_option("--data", request.data, "test.jsonl of the rule data set")->required();
  command->add_option("--output", flags->output, "Folder for analysis.json and analysis.html")
      ->required()
      ->check(not_empty());
  const auto count = [&](const char* name, int64_t& value, const char* help, int64_t least) {
    command->add_option(name, value, help)
        ->check(CLI::Range(least, int64_t{1} << 20).description("") & whole_number<int64_t>())
        ->capture_default_str();
  };
  count("--limit", request.limit, "Rows, drawn evenly over the rules", 4);
  count("--answers", request.answers, "Rows answered with each part switched off; 0 leaves that out", 0);
  count("--examples", request.examples, "Rows whose system message is shown token by token", 0);
  count("--max-new-tokens", request.max_new_tokens, "Longest answer", 1);
  command->add_option("--seed", request.seed, "Draws the rows and the probe's halves")
      ->check(whole_number<uint64_t>())
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->callback([flags, &run] { run = [flags] { run_analyze(*flags); }; });
}

}  // namespace calyrex::cli
