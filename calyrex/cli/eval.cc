// calyrex eval: the group, and what the tasks say of themselves.
#include "calyrex/cli/eval.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "calyrex/base/json.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/info_table.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/tasks/registry.h"

namespace calyrex::cli {
namespace {

std::string form_names(const eval::TaskInfo& info) {
  std::string names;
  for (const eval::Form form : info.forms) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", eval::form_name(form));
  }
  return names;
}

Json to_json(const eval::TaskInfo& info) {
  Json forms = Json::array();
  for (const eval::Form form : info.forms) forms.push_back(eval::form_name(form));
  Json json;
  json["name"] = info.name;
  json["measures"] = info.measures;
  json["source"] = info.source;
  json["licence"] = info.licence;
  json["forms"] = std::move(forms);
  json["needs_judge"] = info.needs_judge;
  json["splits"] = info.splits;
  json["axes"] = info.axes;
  json["headline"] = info.headline;
  json["scorer_version"] = info.scorer_version;
  return json;
}

void list_tasks(bool as_json) {
  if (as_json) {
    Json list = Json::array();
    for (const eval::Task* task : eval::all_tasks()) list.push_back(to_json(task->info()));
    fmt::print("{}", to_json_text(list));
    return;
  }
  for (const eval::Task* task : eval::all_tasks()) {
    const eval::TaskInfo& info = task->info();
    fmt::print("{:<22} {}{} (forms: {})\n", info.name, info.measures,
               info.needs_judge ? "; needs a judge" : "", form_names(info));
  }
}

void describe_task(const std::string& name, bool as_json) {
  const eval::TaskInfo& info = eval::find_task(name).info();
  if (as_json) {
    fmt::print("{}", to_json_text(to_json(info)));
    return;
  }
  std::string headline;
  for (const std::string& metric : info.headline) {
    headline += fmt::format("{}{}", headline.empty() ? "" : ", ", metric);
  }
  InfoTable table;
  table.add("Task", info.name);
  table.add("Measures", info.measures);
  table.add("Data", info.source);
  table.add("Licence", info.licence);
  table.add("Forms", form_names(info) + " (the first is the default)");
  if (!info.splits.empty()) {
    table.add("Splits", fmt::format("{} (the first is the default)", fmt::join(info.splits, ", ")));
  }
  if (!info.axes.empty()) table.add("Axes", fmt::format("{}", fmt::join(info.axes, ", ")));
  table.add("Judge", info.needs_judge ? "needed" : "not needed");
  table.add("Headline", headline);
  table.add("Scorer", info.scorer_version);
  table.add("Try it", fmt::format("calyrex eval run {} --sample --output runs/{}", info.name, info.name));
  table.print();
}

struct InfoOptions {
  std::string task;
  bool json = false;
};

void add_list(CLI::App& eval, Run& run) {
  CLI::App* command = eval.add_subcommand("list", "The benchmarks, one a line");
  auto options = std::make_shared<InfoOptions>();
  command->add_flag("--json", options->json, "All that is known of each, as JSON");
  command->callback([options, &run] { run = [options] { list_tasks(options->json); }; });
}

void add_info(CLI::App& eval, Run& run) {
  CLI::App* command =
      eval.add_subcommand("info", "What a benchmark measures, which data it needs and where to get them");
  auto options = std::make_shared<InfoOptions>();
  command->add_option("task", options->task, "Name of the benchmark")->required();
  command->add_flag("--json", options->json, "One JSON object");
  command->callback([options, &run] { run = [options] { describe_task(options->task, options->json); }; });
}

}  // namespace

void add_eval_command(CLI::App& app, Run& run) {
  CLI::App* eval = app.add_subcommand("eval", "Benchmarks: what an adapter gains and what it costs");
  eval->require_subcommand(1);
  add_eval_run_command(*eval, run);
  add_list(*eval, run);
  add_info(*eval, run);
  add_eval_compare_command(*eval, run);
  add_eval_judge_command(*eval, run);
}

}  // namespace calyrex::cli
