// The study file: what is trained and evaluated, as docs/study.md describes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/base/config_node.h"
#include "calyrex/base/fields.h"
#include "calyrex/base/json.h"
#include "calyrex/eval/run/task_choice.h"

namespace calyrex::study {

/// One evaluation of every run.
struct EvalEntry {
  std::string task;
  std::string name;  // of its column; empty: the task's
  std::string data;
  bool sample = false;
  std::string form;
  std::optional<int64_t> shots;
  std::optional<int64_t> limit;
  std::optional<int64_t> max_new_tokens;
  std::string split;
  std::string axis;
  int64_t seed = 0;
  std::vector<std::string> only;  // settings that are evaluated; empty: all

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("task", task, "benchmark, as `eval list` names it");
    visit("name", name, "name of its column and folder; empty = the task's");
    visit("data", data, "folder or file of the benchmark");
    visit("sample", sample, "the few rows that the program carries");
    visit("form", form, "which text is the system message; empty = the task's first form");
    visit("shots", shots, "examples before the question; null = as the task says");
    visit("limit", limit, "only the first so many rows; null = all");
    visit("max_new_tokens", max_new_tokens, "no answer longer than this; null = as the task says");
    visit("split", split, "which part of the data, for tasks that have splits");
    visit("axis", axis, "one axis alone, for tasks that measure along several");
    visit("seed", seed, "of whatever the task draws");
    visit("only", only, "settings that are evaluated, by name; empty = all");
  }
};

eval::TaskChoice to_choice(const EvalEntry& entry);

/// The learning rate of each kind, chosen on development data.
struct SelectSettings {
  std::vector<double> learning_rate;  // the same grid for every kind; empty: nothing is chosen
  EvalEntry on;
  std::string metric;  // of that evaluation; larger is better

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("learning_rate", learning_rate, "the rates that are tried, the same for every kind");
    visit("on", on, "");
    visit("metric", metric, "metric of that evaluation by which the best rate is taken");
  }
};

struct StudySettings {
  std::string name;
  std::string output;
  Json base = Json::object();
  Json grid = nullptr;
  Json runs = nullptr;
  Json equal_params_to = {{"kind", "cal"}, {"placement", "late8th"}};
  std::vector<EvalEntry> eval;
  SelectSettings select;
  std::vector<std::string> baselines;  // settings; empty: base, and for CAL those of other kinds
  std::string dtype = "auto";

  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("name", name, "title of the report; empty = the output's name");
    visit("output", output, "folder of the study");
    visit("base", base, "training configuration that every run starts from (docs/configuration.md)");
    visit("grid", grid, "a map of lists, or a list of such maps: one run for each combination");
    visit("runs", runs, "a list of single runs");
    visit("equal_params_to", equal_params_to, "adapter whose number of parameters `arm: equal_params` takes");
    visit("eval", eval, "evaluations of every run");
    visit("select", select, "");
    visit("baselines", baselines,
          "settings that every other is compared with; empty = the base model, and for CAL settings those of "
          "other kinds");
    visit("dtype", dtype, "of evaluation: auto, float32 or bfloat16");
  }
};

/// A study file as read: settings, and the trees behind them with their places.
struct StudyFile {
  StudySettings settings;
  ConfigNode tree;
};

/// Reads the file and applies overrides ("output=x", "base.train.max_steps=5"). Every value is checked for
/// itself; kInvalidArgument with place, key and remedy.
StudyFile load_study_file(const std::filesystem::path& path, const std::vector<std::string>& overrides);

/// Markdown table of the keys.
std::string document_study_settings();

}  // namespace calyrex::study
