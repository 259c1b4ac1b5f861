#include "calyrex/study/config.h"

#include <limits>
#include <set>

#include <fmt/format.h>

#include "calyrex/base/error.h"

namespace calyrex::study {
namespace {

/// The place of a top-level key, or the file's.
std::string place_of(const ConfigNode& tree, std::string_view key) {
  const ConfigNode* node = tree.find(key);
  return node != nullptr && !node->place.empty() ? node->place : tree.place;
}

void require(bool holds, const ConfigNode& tree, std::string_view key, std::string_view what) {
  if (!holds) fail(ErrorCode::kInvalidArgument, "{}: '{}' {}", place_of(tree, key), key, what);
}

bool is_file_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.=+@";
  return !name.empty() && name.size() <= 120 && name.front() != '.' &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

void check_entry(const ConfigNode& tree, const EvalEntry& entry, std::string_view key) {
  require(!entry.task.empty(), tree, key, "needs a task in every entry, e.g. {task: rules}");
  require(!entry.limit || *entry.limit > 0, tree, key, "has a limit below 1");
  require(!entry.max_new_tokens || *entry.max_new_tokens > 0, tree, key, "has max_new_tokens below 1");
  require(entry.seed >= 0, tree, key, "has a seed below 0");
  require(!entry.shots || (*entry.shots >= 0 && *entry.shots <= std::numeric_limits<int>::max()), tree, key,
          "has shots out of range");
  require(!entry.sample || entry.data.empty(), tree, key, "names data beside sample: true; give one of them");
  require(is_file_name(entry.name), tree, key,
          fmt::format("has the name '{}'; take letters, digits and - _ . = + @", entry.name));
}

void check_settings(const ConfigNode& tree, StudySettings& settings) {
  require(!settings.output.empty(), tree, "output", "must be the folder to write to, e.g. runs/study");
  require(!settings.eval.empty(), tree, "eval", "must be a list with at least one task");
  require(settings.dtype == "auto" || settings.dtype == "float32" || settings.dtype == "bfloat16", tree,
          "dtype", "must be one of auto, float32, bfloat16");
  if (settings.name.empty()) settings.name = std::filesystem::path(settings.output).filename().string();
  std::set<std::string> names;
  for (EvalEntry& entry : settings.eval) {
    if (entry.name.empty()) entry.name = entry.task;
    check_entry(tree, entry, "eval");
    require(names.insert(entry.name).second, tree, "eval",
            fmt::format("holds '{}' twice; give one of them another name", entry.name));
  }
  SelectSettings& select = settings.select;
  if (select.learning_rate.empty()) return;
  if (select.on.name.empty()) select.on.name = select.on.task;
  check_entry(tree, select.on, "select");
  require(!select.metric.empty(), tree, "select", "needs the metric by which the best rate is taken");
  std::set<double> rates;
  for (const double rate : select.learning_rate) {
    require(rate > 0.0 && rate <= 10.0 && rates.insert(rate).second, tree, "select",
            "must hold distinct learning rates above 0, at most 10");
  }
}

}  // namespace

eval::TaskChoice to_choice(const EvalEntry& entry) {
  eval::TaskChoice choice;
  choice.task = entry.task;
  choice.data = entry.data;
  choice.sample = entry.sample;
  choice.form = entry.form;
  if (entry.shots) choice.shots = static_cast<int>(*entry.shots);
  choice.split = entry.split;
  choice.axis = entry.axis;
  choice.seed = static_cast<uint64_t>(entry.seed);
  return choice;
}

StudyFile load_study_file(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  StudyFile file;
  file.tree = read_yaml_file(path);
  for (const std::string& assignment : overrides) apply_override(file.tree, assignment);
  if (file.tree.place.empty()) file.tree.place = path.string();
  read_fields(file.tree, file.settings);
  check_settings(file.tree, file.settings);
  return file;
}

std::string document_study_settings() { return document_fields<StudySettings>(); }

}  // namespace calyrex::study
