#include "calyrex/study/plan_file.h"

#include <algorithm>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/eval/tasks/registry.h"
#include "calyrex/study/results/stored.h"

namespace calyrex::study {
namespace {

namespace fs = std::filesystem;

/// Names of the runs that an output holds the results of, in order.
std::vector<std::string> finished_runs(const fs::path& output) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(output / "runs", error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (path_exists(entry->path() / "result.json")) names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

void refuse_other_output(const StudySettings& settings, const std::vector<PlannedRun>& runs) {
  const fs::path output = settings.output;
  if (!path_exists(output)) return;
  if (!fs::is_directory(output)) {
    fail(ErrorCode::kInvalidArgument, "{} exists and is no folder; choose another output", output.string());
  }
  const std::vector<std::string> finished = finished_runs(output);
  if (!path_exists(output / "study.json")) {
    if (finished.empty() && !fs::is_empty(output)) {
      fail(ErrorCode::kInvalidArgument, "{} holds files but no study; choose another output",
           output.string());
    }
    return;
  }
  const std::string there = read_stored_plan(output)["name"].get<std::string>();
  std::vector<std::string> strays;
  bool shares_trained_run = false;
  for (const std::string& name : finished) {
    const auto found = std::ranges::find(runs, name, &PlannedRun::name);
    if (found == runs.end()) {
      strays.push_back(name);
    } else {
      shares_trained_run = shares_trained_run || found->config.has_value();
    }
  }
  if (strays.empty() || (there == settings.name && shares_trained_run)) return;
  constexpr size_t kShown = 3;
  const size_t shown = std::min(strays.size(), kShown);
  fail(ErrorCode::kInvalidArgument,
       "{} holds finished runs of the study '{}' that '{}' does not have ({}{}); choose another output, or "
       "remove that folder",
       output.string(), there, settings.name, fmt::join(strays.begin(), strays.begin() + shown, ", "),
       strays.size() > shown ? ", ..." : "");
}

void write_plan(const StudySettings& settings, const weights::ModelSource& model,
                const std::vector<PlannedRun>& runs) {
  Json json;
  json["format"] = "calyrex-study-plan";
  json["version"] = 1;
  json["name"] = settings.name;
  json["model"] = model.name();
  const weights::ModelConfig& config = model.config();
  json["backbone"]["layers"] = config.num_layers;
  json["backbone"]["hidden_size"] = config.hidden_size;
  int64_t parameters = 0;
  for (const auto& tensor : weights::expected_tensors(config)) {
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    parameters += count;
  }
  json["backbone"]["parameters"] = parameters;
  json["settings"] = write_fields(settings);
  json["eval"] = Json::array();
  for (const EvalEntry& entry : settings.eval) {
    const eval::TaskInfo& info = eval::find_task(entry.task).info();
    json["eval"].push_back({{"name", entry.name},
                            {"task", entry.task},
                            {"measures", info.measures},
                            {"headline", info.headline},
                            {"only", entry.only}});
  }
  json["runs"] = plan_to_json(runs);
  write_file_atomically(fs::path(settings.output) / "study.json", to_json_text(json));
}

}  // namespace calyrex::study
