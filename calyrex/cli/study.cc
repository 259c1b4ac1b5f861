// calyrex study: sweeps of training and evaluation, their reports, and studies of several sizes side by side.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/json.h"
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/page.h"
#include "calyrex/cli/torch_part.h"
#include "calyrex/study/results/collect.h"
#include "calyrex/study/results/scale.h"
#include "calyrex/study/results/tables.h"

namespace calyrex::cli {
namespace {

namespace fs = std::filesystem;

/// Writes results.json, results.csv, report.md and report.html; returns the study.
Json write_reports(const fs::path& folder, study::Differences differences) {
  Json study = study::collect_study(folder, differences);
  write_file_atomically(folder / "results.csv", study::study_csv(study));
  write_file_atomically(folder / "results.json", to_json_text(study));
  write_file_atomically(folder / "report.md", study::study_markdown(study));
  write_file_atomically(folder / "report.html", make_study_page(study));
  return study;
}

/// A whole number of an environment variable that process launchers set.
std::optional<int64_t> launcher_number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0' || value < 0 || errno != 0)
    fail(ErrorCode::kInvalidArgument, "{}={}: not a whole number", name, text);
  return value;
}

constexpr int64_t kMostShards = 4096;

struct Shard {
  int64_t index = 0;
  int64_t count = 1;
};

/// "2/3", 1-based; without it RANK and WORLD_SIZE, as torchrun and others set them.
Shard parse_shard(const std::string& text) {
  Shard shard;
  if (text.empty()) {
    shard.count = launcher_number("WORLD_SIZE").value_or(1);
    shard.index = launcher_number("RANK").value_or(0);
    if (shard.count < 1 || shard.count > kMostShards) {
      fail(ErrorCode::kInvalidArgument, "WORLD_SIZE={}: expected 1 to {} processes", shard.count,
           kMostShards);
    }
    if (shard.index >= shard.count) {
      fail(ErrorCode::kInvalidArgument, "RANK={} with WORLD_SIZE={}: the rank must be below the size",
           shard.index, shard.count);
    }
    return shard;
  }
  long index = 0, count = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%ld/%ld%c", &index, &count, &rest) != 2 || count < 1 ||
      count > kMostShards || index < 1 || index > count) {
    fail(ErrorCode::kInvalidArgument, "--shard {}: write i/n with i from 1 to n, at most {}, e.g. 2/3", text,
         kMostShards);
  }
  return {.index = index - 1, .count = count};
}

struct RunOptions {
  std::string file;
  std::vector<std::string> overrides;
  std::string shard;
  bool plan = false;
  bool settings = false;
  bool json = false;
};

void run_study(const RunOptions& options) {
  if (options.settings) {
    fmt::print("{}", torch_part().document_study_settings());
    return;
  }
  if (options.file.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "no study file; write: calyrex study run STUDY.yaml [key=value ...] (--settings lists the keys)");
  }
  const Shard shard = parse_shard(options.shard);
  const fs::path folder = torch_part().run_study(
      {.path = options.file,
       .overrides = options.overrides,
       .shard = shard.index,
       .num_shards = shard.count,
       .plan_only = options.plan,
       .on_result = [](const fs::path& own) { write_reports(own, study::Differences::kSkip); }});
  if (options.plan) return;
  const Json study = write_reports(folder, study::Differences::kCompute);
  fmt::print("{}", options.json ? to_json_text(study) : study::study_markdown(study));
}

struct ReportOptions {
  fs::path folder;
  bool json = false;
};

void run_report(const ReportOptions& options) {
  const Json study = write_reports(options.folder, study::Differences::kCompute);
  fmt::print("{}", options.json ? to_json_text(study) : study::study_markdown(study));
}

struct ScaleOptions {
  std::vector<fs::path> folders;
  std::string setting = "cal-late8th";
  fs::path output;
  bool json = false;
};

void run_scale(const ScaleOptions& options) {
  const Json scale = study::collect_scale(options.folders, options.setting);
  const std::string markdown = study::scale_markdown(scale);
  if (!options.output.empty()) {
    make_directories(options.output);
    write_file_atomically(options.output / "scale.json", to_json_text(scale));
    write_file_atomically(options.output / "scale.md", markdown);
    write_file_atomically(options.output / "scale.html", make_scale_page(scale));
  }
  fmt::print("{}", options.json ? to_json_text(scale) : markdown);
}

void add_run(CLI::App& study, Run& run) {
  CLI::App* command = study.add_subcommand(
      "run",
      "Train and evaluate every run of a study; what is finished is not repeated, a stopped one goes on");
  auto options = std::make_shared<RunOptions>();
  command->add_option("file", options->file, "YAML file of the study (docs/study.md)");
  command->add_option("overrides", options->overrides,
                      "Keys that replace the file's, as output=runs/other or base.train.max_steps=50");
  command
      ->add_option("--shard", options->shard,
                   "This process's share of the runs, i/n; default: RANK and WORLD_SIZE where they are set")
      ->check(not_empty());
  command->add_flag("--plan", options->plan, "Check everything, print the estimate, and stop");
  command->add_flag("--settings", options->settings,
                    "Print every key with its default and meaning, and exit");
  command->add_flag("--json", options->json, "Print results.json to stdout, no tables");
  command->callback([options, &run] { run = [options] { run_study(*options); }; });
}

void add_report(CLI::App& study, Run& run) {
  CLI::App* command =
      study.add_subcommand("report", "Write the reports of a study anew, from whatever runs have finished");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("folder", options->folder, "Output folder of a study")->required()->check(not_empty());
  command->add_flag("--json", options->json, "Print results.json to stdout, no tables");
  command->callback([options, &run] { run = [options] { run_report(*options); }; });
}

void add_scale(CLI::App& study, Run& run) {
  CLI::App* command = study.add_subcommand(
      "scale", "Gap of one setting to each baseline against the size of the backbone, over finished studies");
  auto options = std::make_shared<ScaleOptions>();
  command->add_option("folders", options->folders, "Output folders of studies")
      ->required()
      ->check(not_empty());
  command->add_option("--setting", options->setting, "The CAL setting that is followed")
      ->capture_default_str();
  command->add_option("--output", options->output, "Folder for scale.json, scale.md and scale.html")
      ->check(not_empty());
  command->add_flag("--json", options->json, "Print scale.json to stdout, no table");
  command->callback([options, &run] { run = [options] { run_scale(*options); }; });
}

}  // namespace

void add_study_command(CLI::App& app, Run& run) {
  CLI::App* study = app.add_subcommand("study", "Sweeps: many runs from one file, with a table to trust");
  study->require_subcommand(1);
  add_run(*study, run);
  add_report(*study, run);
  add_scale(*study, run);
}

}  // namespace calyrex::cli
