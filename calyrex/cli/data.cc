// calyrex data: build writes data sets, stats and preview show them, grade judges answers to rule rows.
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "calyrex/cli/arguments.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/data_commands.h"
#include "calyrex/cli/value_name.h"
#include "calyrex/data/answers.h"
#include "calyrex/data/grader.h"
#include "calyrex/data/report_text.h"
#include "calyrex/data/rule.h"
#include "calyrex/data/rule_files.h"

namespace calyrex::cli {
namespace {

struct RulesOptions {
  data::RuleDataOptions data;
  data::RowFormat format = data::RowFormat::kMessages;
  std::filesystem::path output;
  bool list = false;
  bool json = false;
};

void list_rules() {
  for (const data::Rule& rule : data::all_rules()) {
    fmt::print("{:<18}{}{}\n", rule.name, rule.label, rule.trained() ? "" : " (never trained)");
  }
}

void build_rules(const RulesOptions& options) {
  if (options.list) {
    list_rules();
    return;
  }
  if (options.output.empty())
    fail(ErrorCode::kInvalidArgument, "--output is missing: the folder to write to");
  const Json manifest = data::write_rule_data(options.data, options.format, options.output);
  if (options.json) {
    fmt::print("{}", to_json_text(manifest));
    return;
  }
  for (const auto& [name, file] : manifest["files"].items()) {
    fmt::print("{}: {} rows\n", (options.output / name).string(), file["rows"].get<int64_t>());
  }
}

struct GradeOptions {
  std::filesystem::path rows;
  std::filesystem::path responses;
  bool json = false;
};

void grade(const GradeOptions& options) {
  const auto rows = data::read_rule_rows(options.rows);
  const auto report =
      data::summarize(rows, data::grade_answers(rows, data::read_answers(options.responses, rows)));
  fmt::print("{}", options.json ? to_json_text(data::report_to_json(report)) : data::format_report(report));
}

void add_grade_command(CLI::App& data_group, Run& run) {
  CLI::App* command =
      data_group.add_subcommand("grade", "Grade answers to rows of `data build rules` by program");
  auto options = std::make_shared<GradeOptions>();
  command->add_option("--rows", options->rows, "test.jsonl of the data set")->required();
  command
      ->add_option("--responses", options->responses,
                   "JSONL of {\"id\" or \"key\" or \"prompt\", \"response\"}, one answer a row")
      ->required();
  command->add_flag("--json", options->json, "Print the report as JSON");
  command->callback([options, &run] { run = [options] { grade(*options); }; });
}

void add_build_command(CLI::App& data_group, Run& run) {
  CLI::App* build =
      data_group.add_subcommand("build", "Write a data set: rule-following chats, or a mixture of files");
  build->require_subcommand(1);
  CLI::App* rules =
      build->add_subcommand("rules", "Chats whose system message states rules that a program can check");
  auto options = std::make_shared<RulesOptions>();
  data::RuleDataOptions& data = options->data;
  rules->add_option("--output", options->output,
                    "Folder for train.jsonl, dev.jsonl, test.jsonl, manifest.json");
  rules->add_option("--seed", data.seed, "Same seed, same bytes")
      ->check(whole_number<uint64_t>())
      ->capture_default_str();
  rules->add_option("--rows", data.train_rows, "Training rows")->capture_default_str();
  rules->add_option("--rules", data.rules, "Only these rules, by name (a,b,c); default: all")->delimiter(',');
  rules->add_option("--dev-rows", data.dev_rows_per_rule, "Rows a rule in dev.jsonl")->capture_default_str();
  rules->add_option("--test-rows", data.test_rows_per_rule, "Rows a rule in test.jsonl")
      ->capture_default_str();
  rules
      ->add_option("--overrule-rows", data.test_overrule_rows_per_rule,
                   "Rows a trained rule in test.jsonl where the user tries to overrule it")
      ->capture_default_str();
  rules->add_option("--format", options->format, "Layout of the rows: messages, sharegpt or alpaca")
      ->transform(value_name<data::RowFormat>())
      ->default_str("messages");
  rules->add_flag("--list", options->list, "Print the rules and exit");
  rules->add_flag("--json", options->json, "Print the manifest");
  rules->callback([options, &run] { run = [options] { build_rules(*options); }; });
  add_mix_command(*build, run);
}

}  // namespace

void add_data_command(CLI::App& app, Run& run) {
  CLI::App* data_group = app.add_subcommand("data", "Build, grade and look at data sets");
  data_group->require_subcommand(1);
  add_build_command(*data_group, run);
  add_grade_command(*data_group, run);
  add_data_stats_command(*data_group, run);
  add_data_preview_command(*data_group, run);
}

}  // namespace calyrex::cli
