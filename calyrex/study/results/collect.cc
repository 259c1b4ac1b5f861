#include "calyrex/study/results/collect.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "calyrex/base/file.h"
#include "calyrex/study/results/differences.h"
#include "calyrex/study/results/stored.h"

namespace calyrex::study {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCurvePoints = 60;

/// The result of a run that has finished; null otherwise.
Json read_result(const fs::path& folder, const std::string& run) {
  const fs::path file = folder / "runs" / run / "result.json";
  return path_exists(file) ? read_stored_result(file) : Json();
}

/// Every so-manieth point of a loss curve.
Json thin_curve(const Json& training) {
  Json points = Json::array();
  if (!training.contains("curve") || !training["curve"].contains("loss")) return points;
  const Json& loss = training["curve"]["loss"];
  const size_t stride = std::max<size_t>(1, (loss.size() + kCurvePoints - 1) / kCurvePoints);
  for (size_t i = 0; i < loss.size(); i += stride) points.push_back(loss[i]);
  return points;
}

Json run_summary(const Json& planned, const Json& result) {
  Json run = planned;
  run["status"] = !planned["not_applicable"].is_null() ? "not applicable"
                  : result.is_null()                   ? "missing"
                                                       : "finished";
  if (result.is_null()) return run;
  run["evaluation_seconds"] = result.value("evaluation_seconds", Json());
  const Json& training = result["training"];
  if (!training.is_object()) return run;
  for (const char* key :
       {"learning_rate", "steps", "tokens", "final_loss", "seconds", "dtype", "prefix_cache"}) {
    if (training.contains(key)) run[key] = training[key];
  }
  run["curve"] = thin_curve(training);
  return run;
}

void add_rows(const Json& run, const Json& result, Json& rows) {
  for (const Json& entry : result["eval"]) {
    for (const auto& [name, metric] : entry["results"]["metrics"].items()) {
      const auto [score, axis] = split_metric(name);
      Json row;
      for (const char* key : {"name", "setting", "kind", "placement", "arm", "seed", "parameters"})
        row[key == std::string_view("name") ? "run" : key] = run[key];
      row["learning_rate"] = run.value("learning_rate", Json());
      row["evaluation"] = entry["name"];
      row["task"] = entry["task"];
      row["metric"] = score;
      row["axis"] = axis;
      row["n"] = entry["results"]["n"];
      for (const char* key : {"value", "low", "high"}) row[key] = metric[key];
      rows.push_back(std::move(row));
    }
  }
}

Json read_selection(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / "select", error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  Json selection = Json::array();
  for (const fs::path& file : files) selection.push_back(read_stored_selection(file));
  return selection;
}

}  // namespace

std::pair<std::string, std::string> split_metric(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return {name, ""};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

Json collect_study(const fs::path& folder, Differences differences) {
  const Json plan = read_stored_plan(folder);
  Json study;
  study["format"] = "calyrex-study";
  study["version"] = 1;
  for (const char* key : {"name", "model", "backbone", "settings"}) study[key] = plan.at(key);
  study["evaluations"] = plan.at("eval");
  study["runs"] = Json::array();
  study["rows"] = Json::array();
  for (const Json& planned : plan.at("runs")) {
    const Json& same_as = planned["same_as"];
    const Json result = read_result(
        folder, same_as.is_null() ? planned["name"].get<std::string>() : same_as.get<std::string>());
    Json run = run_summary(planned, result);
    if (!result.is_null()) add_rows(run, result, study["rows"]);
    study["runs"].push_back(std::move(run));
  }
  study["selection"] = read_selection(folder);
  study["main_scores"] = Json::array();
  study["comparisons"] = Json::array();
  if (differences == Differences::kCompute) add_differences(folder, study);
  return study;
}

}  // namespace calyrex::study
