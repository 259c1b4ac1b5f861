// calyrex bench: measures loading, training, prefill and decoding inside one process. bench/ compares these
// figures with those of other programs.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <stdlib.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/json.h"
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/bench_measure.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/model_flags.h"
#include "calyrex/cli/torch_part.h"
#include "calyrex/data/rule_files.h"

namespace calyrex::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void print_result(bool as_line, Json result) {
  result["peak_memory_mib"] = std::round(peak_memory_mib());
  result["environment"] = torch_part().describe();
  fmt::print("{}", as_line ? to_json_line(result) + "\n" : to_json_text(result));
}

/// Options of the measurements that answer requests.
struct GenerationOptions {
  ModelFlags flags;
  GenerationLoad load;
  int64_t repeat = 3;
  bool json = false;
};

void bench_load(const GenerationOptions& options) {
  const Clock::time_point start = Clock::now();
  torch_part();
  const double library = seconds_since(start);
  const OpenedModel opened = open_model(options.flags);
  const double total = seconds_since(start);
  print_result(options.json, {{"measurement", "load"},
                              {"model", options.flags.model},
                              {"adapter", options.flags.adapter},
                              {"dtype", opened.model->info().dtype},
                              {"library_seconds", library},
                              {"model_seconds", total - library},
                              {"seconds", total}});
}

/// One run to warm up, then `repeat` measured ones; `rate` of each.
template <typename Rate>
void bench_generation(const GenerationOptions& options, const char* measurement, const Rate& rate) {
  GenerationLoad load = options.load;
  const OpenedModel opened = open_model(options.flags, load.requests);
  load.adapter = opened.adapter;
  std::vector<double> rates;
  for (int64_t run = 0; run <= options.repeat; ++run) {
    load.seed = static_cast<uint64_t>(run);
    const GenerationTimes times = measure_generation(*opened.model, load);
    if (run > 0) rates.push_back(rate(times));
  }
  print_result(options.json, {{"measurement", measurement},
                              {"model", options.flags.model},
                              {"adapter", options.flags.adapter},
                              {"dtype", opened.model->info().dtype},
                              {"requests", load.requests},
                              {"prompt_tokens", load.prompt_tokens},
                              {"new_tokens", load.new_tokens},
                              {"tokens_per_second", summarize_rates(rates)}});
}

double prefill_rate(const GenerationTimes& times) {
  return static_cast<double>(times.prompt_tokens) / times.seconds;
}

double decode_rate(const GenerationTimes& times) {
  if (times.decode_tokens == 0) {
    fail(ErrorCode::kInvalidArgument,
         "a request ended before all of them had begun; take more --new-tokens, or fewer --streams");
  }
  return static_cast<double>(times.decode_tokens) / times.decode_seconds;
}

struct TrainOptions {
  std::string model = "default";
  fs::path data;
  int64_t steps = 12;
  int64_t skip = 2;
  std::vector<std::string> overrides;
  bool json = false;
};

/// A folder that is gone when the measurement ends.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "calyrex-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail(ErrorCode::kIo, "{}: no temporary folder can be made", name);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Rows of the project's own rule data, when the user names none.
fs::path make_rows(const fs::path& folder) {
  data::RuleDataOptions options;
  options.train_rows = 400;
  data::write_rule_data(options, data::RowFormat::kMessages, folder);
  return folder / "train.jsonl";
}

Json train_config(const TrainOptions& options, const fs::path& rows, const fs::path& output) {
  // JSON is YAML too.
  return {{"model", options.model},
          {"data", {{"train", Json::array({{{"path", rows.string()}}})}}},
          {"train",
           {{"max_steps", options.steps}, {"epochs", 1000}, {"batch_examples", 8}, {"checkpoint_every", 0}}},
          {"output", output.string()}};
}

/// Rate over all steps but the first few, and of each step.
Json training_rates(const fs::path& metrics, int64_t skip) {
  double tokens = 0.0;
  double seconds = 0.0;
  std::vector<double> rates;
  Json losses = Json::array();
  for_each_json_line(metrics, [&](int64_t line, Json step) {
    losses.push_back(step.at("loss"));
    if (line <= skip) return;
    tokens += step.at("tokens").get<double>();
    seconds += step.at("seconds").get<double>();
    rates.push_back(step.at("tokens").get<double>() / step.at("seconds").get<double>());
  });
  if (rates.empty()) fail(ErrorCode::kInvalidArgument, "--steps must be more than --skip ({})", skip);
  return {
      {"tokens_per_second", tokens / seconds}, {"step_rates", summarize_rates(rates)}, {"losses", losses}};
}

void bench_train(const TrainOptions& options) {
  const TemporaryFolder folder;
  const fs::path rows = options.data.empty() ? make_rows(folder.path() / "data") : options.data;
  const fs::path output = folder.path() / "run";
  const fs::path config = folder.path() / "bench.yaml";
  write_file_atomically(config, to_json_text(train_config(options, fs::absolute(rows), output)));
  torch_part().train({.config_path = config, .overrides = options.overrides});
  Json result = {
      {"measurement", "train"}, {"model", options.model}, {"steps", options.steps}, {"skip", options.skip}};
  result.update(training_rates(output / "metrics.jsonl", options.skip));
  print_result(options.json, std::move(result));
}

void add_json_flag(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Print the result in one line");
}

void add_load(CLI::App& bench, Run& run) {
  CLI::App* command = bench.add_subcommand("load", "Time until a model is ready to answer");
  auto options = std::make_shared<GenerationOptions>();
  add_model_flags(*command, options->flags);
  add_json_flag(*command, options->json);
  command->callback([options, &run] { run = [options] { bench_load(*options); }; });
}

CLI::App* add_generation(CLI::App& bench, const char* name, const char* help, GenerationOptions& options) {
  CLI::App* command = bench.add_subcommand(name, help);
  add_model_flags(*command, options.flags);
  add_json_flag(*command, options.json);
  command->add_option("--prompt-tokens", options.load.prompt_tokens, "Random tokens of each prompt")
      ->check(whole_number<int64_t>(1))
      ->capture_default_str();
  command->add_option("--repeat", options.repeat, "Measured runs after one to warm up")
      ->check(whole_number<int64_t>(1))
      ->capture_default_str();
  return command;
}

void add_prefill(CLI::App& bench, Run& run) {
  auto options = std::make_shared<GenerationOptions>();
  options->load = {.requests = 1, .prompt_tokens = 1024, .new_tokens = 1, .adapter = {}};
  CLI::App* command = add_generation(bench, "prefill", "Prompt tokens a second", *options);
  command->add_option("--requests", options->load.requests, "Prompts submitted at once")
      ->check(whole_number<int64_t>(1))
      ->capture_default_str();
  command->callback(
      [options, &run] { run = [options] { bench_generation(*options, "prefill", prefill_rate); }; });
}

void add_decode(CLI::App& bench, Run& run) {
  auto options = std::make_shared<GenerationOptions>();
  CLI::App* command =
      add_generation(bench, "decode", "Generated tokens a second, all streams together", *options);
  command->add_option("--streams", options->load.requests, "Requests that generate side by side")
      ->check(whole_number<int64_t>(1))
      ->capture_default_str();
  command
      ->add_option("--new-tokens", options->load.new_tokens,
                   "Tokens that each generates, behind stop tokens too")
      ->check(whole_number<int64_t>(1))
      ->capture_default_str();
  command->callback(
      [options, &run] { run = [options] { bench_generation(*options, "decode", decode_rate); }; });
}

void add_train(CLI::App& bench, Run& run) {
  CLI::App* command = bench.add_subcommand("train", "Real tokens a second of training a late8th CAL adapter");
  auto options = std::make_shared<TrainOptions>();
  command->add_option("--model", options->model, "Folder, .gguf file or default")->capture_default_str();
  add_json_flag(*command, options->json);
  command->add_option("--data", options->data, "Chats to train on; default: the project's rule data")
      ->check(CLI::ExistingFile);
  command->add_option("--steps", options->steps, "Optimiser steps")
      ->check(whole_number<int64_t>(1))
      ->capture_default_str();
  command->add_option("--skip", options->skip, "First steps left out of the rate")
      ->check(whole_number<int64_t>(0))
      ->capture_default_str();
  command->add_option("settings", options->overrides, "key=value of the training configuration");
  command->callback([options, &run] { run = [options] { bench_train(*options); }; });
}

}  // namespace

void add_bench_command(CLI::App& app, Run& run) {
  CLI::App* bench = app.add_subcommand("bench", "Measure speed and memory on this machine");
  bench->require_subcommand(1);
  add_load(*bench, run);
  add_prefill(*bench, run);
  add_decode(*bench, run);
  add_train(*bench, run);
}

}  // namespace calyrex::cli
