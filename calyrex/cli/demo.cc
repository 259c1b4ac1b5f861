// calyrex demo: builds rule data, trains an adapter on it, and shows what it does to held-out questions.
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "calyrex/base/config_edit.h"
#include "calyrex/base/config_node.h"
#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/folder_lock.h"
#include "calyrex/base/json.h"
#include "calyrex/base/log.h"
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/embedded.h"
#include "calyrex/cli/page.h"
#include "calyrex/cli/torch_part.h"
#include "calyrex/data/ask.h"
#include "calyrex/data/comparison.h"
#include "calyrex/data/report_text.h"
#include "calyrex/data/rule_files.h"

namespace calyrex::cli {
namespace {
namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;

constexpr size_t kExamples = 5;
constexpr const char* kAdapterName = "demo";

struct DemoOptions {
  fs::path output = "runs/demo";
  std::string model = "default";
  data::RuleDataOptions data;
  std::optional<int64_t> steps;
  int64_t max_new_tokens = 64;
  fs::path config;  // empty: the built-in one
  bool restart = false;
  bool json = false;
};

struct Seconds {
  double data = 0.0;
  double training = 0.0;
  double grading = 0.0;
};

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

fs::path data_folder(const DemoOptions& options) { return options.output / "data"; }
fs::path config_path(const DemoOptions& options) { return options.output / "demo.yaml"; }

/// The configuration as it is trained with.
Json make_config(const DemoOptions& options) {
  ConfigNode tree = options.config.empty() ? parse_yaml(demo_config(), "configs/demo.yaml")
                                           : read_yaml_file(options.config);
  const auto set = [&](const std::string& key, const Json& value) {
    apply_override(tree, key + "=" + to_json_line(value));
  };
  set("model", options.model);
  set("output", options.output.string());
  Json file = Json::object();
  file["path"] = (data_folder(options) / "train.jsonl").string();
  set("data.train", Json::array({file}));
  set("train.seed", options.data.seed);
  if (options.steps) set("train.max_steps", *options.steps);
  return config_to_json(tree);
}

/// Before data and settings of an earlier demo are replaced: training would refuse to go on with these.
void refuse_other_settings(const DemoOptions& options, const Json& config, const Json& manifest) {
  const fs::path record_path = options.output / "training.json", config_file = config_path(options);
  if (options.restart || !fs::exists(record_path)) return;
  std::vector<std::string> differences;
  if (fs::exists(config_file)) {
    differences = config_differences(config_to_json(read_yaml_file(config_file)), config);
  }
  const Json record = read_json_file(record_path);
  const auto digest = "/data/train/0/sha256"_json_pointer;
  if (!record.contains(digest) || record[digest] != manifest["files"]["train.jsonl"]["sha256"])
    differences.emplace_back("the training rows");
  if (differences.empty()) return;
  fail(ErrorCode::kInvalidArgument,
       "{} holds a demo that was made otherwise ({}); give the old settings, another --output, or "
       "--restart to begin anew",
       options.output.string(), fmt::join(differences, "; "));
}

/// What training.json tells of the finished run.
Json training_record(const fs::path& output) { return read_json_file(output / "training.json"); }

data::Comparison ask_and_grade(const DemoOptions& options) {
  auto rows = data::read_rule_rows(data_folder(options) / "test.jsonl");
  const auto model = torch_part().open_language_model({.model = options.model});
  model->load_adapter(kAdapterName, options.output);
  ProgressLine progress;
  const auto ask = [&](std::string_view who, const std::string& adapter) {
    return data::ask_rows(
        *model, rows,
        {.adapter = {.name = adapter},
         .max_new_tokens = options.max_new_tokens,
         .progress = [&, who](int64_t done) {
           progress.show(fmt::format("asking the {}: {}/{} answers", who, done, rows.size()));
         }});
  };
  auto base_answers = ask("base", "");
  auto adapter_answers = ask("adapter", kAdapterName);
  return data::compare_answers(std::move(rows), std::move(base_answers), std::move(adapter_answers),
                               options.data.seed);
}

Json describe(const DemoOptions& options, const data::Comparison& comparison, const Seconds& seconds) {
  const Json training = training_record(options.output);
  const Json data_manifest = read_json_file(data_folder(options) / "manifest.json");
  Json json = Json::object();
  json["format"] = "calyrex-demo";
  json["version"] = 1;
  json["model"] = options.model;
  json["output"] = options.output.string();
  json["seed"] = options.data.seed;
  json.update(data::comparison_to_json(comparison, kExamples));
  json["seconds"]["data"] = seconds.data;
  json["seconds"]["training"] = seconds.training;
  json["seconds"]["grading"] = seconds.grading;
  json["settings"]["data"] = data_manifest["options"];
  json["settings"]["data_files"] = data_manifest["files"];
  json["settings"]["max_new_tokens"] = options.max_new_tokens;
  json["settings"]["training"] = training["config"];
  for (const char* key : {"steps", "tokens", "label_tokens", "final_loss", "dtype", "threads",
                          "trained_parameters", "backbone_parameters"}) {
    if (training.contains(key)) json["training"][key] = training[key];
  }
  return json;
}

std::string next_steps(const DemoOptions& options) {
  const std::string model = options.model == "default" ? "" : fmt::format(" --model {}", options.model);
  const std::string output = options.output.string();
  return fmt::format(
      "Next:\n"
      "  build/calyrex chat{0} --adapter {1} --system 'Always answer in capital letters.'\n"
      "  build/calyrex generate{0} --adapter {1} --system 'Begin every answer with \"Ahoy\".' \\\n"
      "      --prompt 'What is the capital of France?'\n"
      "  build/calyrex train configs/own-data.yaml data.train='[{{path: chats.jsonl}}]'\n"
      "The table is also in {1}/demo.json, every answer in {1}/answers.jsonl, the page to look at is\n"
      "{1}/report.html.\n",
      model, output);
}

void run_demo(const DemoOptions& options) {
  Seconds seconds;
  const Clock::time_point start = Clock::now();
  const Json config = make_config(options);
  const data::RuleFileSet rows = data::make_rule_files(options.data, data::RowFormat::kMessages);
  const std::optional<FolderLock> lock = FolderLock::try_lock(data_folder(options));
  if (!lock) {
    fail(ErrorCode::kResourceExhausted,
         "another process makes a demo in {}; wait for it or choose another --output",
         options.output.string());
  }
  refuse_other_settings(options, config, rows.manifest);
  data::write_rule_files(rows, data_folder(options));
  // JSON is YAML: `calyrex train` reads it back.
  write_file_atomically(config_path(options), to_json_text(config));
  seconds.data = since(start);
  log_info("{} training rows and {} test rows in {}",
           rows.manifest["files"]["train.jsonl"]["rows"].get<int64_t>(),
           rows.manifest["files"]["test.jsonl"]["rows"].get<int64_t>(), data_folder(options).string());
  torch_part().train({.config_path = config_path(options), .overrides = {}, .restart = options.restart});
  seconds.training = training_record(options.output)["seconds"].get<double>();
  const Clock::time_point asking = Clock::now();
  const data::Comparison comparison = ask_and_grade(options);
  seconds.grading = since(asking);
  const Json report = describe(options, comparison, seconds);
  data::write_answers(comparison, options.output / "answers.jsonl");
  write_file_atomically(options.output / "demo.json", to_json_text(report));
  write_file_atomically(options.output / "report.html",
                        make_demo_page(report, training_record(options.output)["curve"]["loss"]));
  if (options.json) {
    fmt::print("{}", to_json_text(report));
    return;
  }
  fmt::print("{}\n", data::format_comparison(comparison.base, comparison.adapter, comparison.difference));
  fmt::print("Side by side (the first test row of a rule each, not chosen by the answers):\n\n{}\n",
             data::format_examples(comparison, kExamples));
  fmt::print("Training took {}, grading {}.\n\n{}", format_duration(seconds.training),
             format_duration(seconds.grading), next_steps(options));
}

}  // namespace

void add_demo_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "demo", "Train an adapter to keep rules of the system message, and show base and adapter side by side");
  auto options = std::make_shared<DemoOptions>();
  command->add_option("--output", options->output, "Folder of the adapter, its data and the report")
      ->capture_default_str();
  command->add_option("--model", options->model, "Model: a folder, a .gguf file, org/name, or default")
      ->capture_default_str();
  command->add_option("--seed", options->data.seed, "Same seed, same table")
      ->check(whole_number<uint64_t>())
      ->capture_default_str();
  command->add_option("--rows", options->data.train_rows, "Training rows")->capture_default_str();
  command->add_option("--test-rows", options->data.test_rows_per_rule, "Test rows a rule")
      ->capture_default_str();
  command->add_option("--rules", options->data.rules, "Only these rules, by name (a,b,c); default: all")
      ->delimiter(',');
  command->add_option("--steps", options->steps, "Optimiser steps; default: as the configuration says")
      ->check(whole_number<int64_t>(1));
  command->add_option("--max-new-tokens", options->max_new_tokens, "Longest answer when grading")
      ->check(whole_number<int64_t>(1))
      ->capture_default_str();
  command->add_option("--config", options->config,
                      "Training settings; default: the built-in configs/demo.yaml");
  command->add_flag("--restart", options->restart, "Train anew where the output holds a run already");
  command->add_flag("--json", options->json, "Print demo.json to stdout, no table");
  command->callback([options, &run] { run = [options] { run_demo(*options); }; });
}

}  // namespace calyrex::cli
