#include "calyrex/study/results/scale.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/run/results.h"
#include "calyrex/study/results/stored.h"

namespace calyrex::study {
namespace {

namespace fs = std::filesystem;

std::set<std::string> compared_settings(const Json& study) {
  std::set<std::string> names;
  for (const Json& comparison : study["comparisons"]) {
    if (comparison["kind"] == "cal") names.insert(comparison["setting"].get<std::string>());
  }
  return names;
}

void require_setting(const std::vector<Json>& studies, const std::vector<fs::path>& folders,
                     const std::string& setting) {
  std::set<std::string> common = compared_settings(studies.front());
  for (const Json& study : studies) {
    const std::set<std::string> own = compared_settings(study);
    std::erase_if(common, [&](const std::string& name) { return !own.contains(name); });
  }
  for (size_t i = 0; i < studies.size(); ++i) {
    if (compared_settings(studies[i]).contains(setting)) continue;
    fail(ErrorCode::kNotFound, "{} compares no setting '{}'; {}", folders[i].string(), setting,
         common.empty() ? std::string("no CAL setting is in all of the studies")
                        : fmt::format("in all studies: {} (--setting)", fmt::join(common, ", ")));
  }
}

}  // namespace

Json collect_scale(const std::vector<fs::path>& folders, const std::string& setting) {
  CALYREX_CHECK(!folders.empty());
  std::vector<Json> studies;
  for (const fs::path& folder : folders) studies.push_back(read_stored_study(folder));
  require_setting(studies, folders, setting);
  const auto size = [](const Json& study) { return study["backbone"]["parameters"].get<int64_t>(); };
  std::stable_sort(studies.begin(), studies.end(),
                   [&](const Json& a, const Json& b) { return size(a) < size(b); });
  Json scale;
  scale["format"] = "calyrex-scale";
  scale["version"] = 1;
  scale["setting"] = setting;
  scale["studies"] = Json::array();
  scale["points"] = Json::array();
  for (const Json& study : studies) {
    scale["studies"].push_back(
        {{"name", study["name"]}, {"model", study["model"]}, {"parameters", size(study)}});
    for (const Json& comparison : study["comparisons"]) {
      if (comparison["setting"] != setting) continue;
      Json point = {{"study", study["name"]}, {"parameters", size(study)}};
      for (const char* key : {"evaluation", "score", "axis", "baseline", "baseline_kind", "seeds",
                              "baseline_seeds", "difference", "p_holm", "word"}) {
        point[key] = comparison[key];
      }
      scale["points"].push_back(std::move(point));
    }
  }
  return scale;
}

std::string scale_markdown(const Json& scale) {
  std::string text = fmt::format(
      "# Gap to the baselines by size of the backbone\n\nSetting: {}. Differences are setting minus "
      "baseline, "
      "with 95 % intervals over seeds and samples.\n\n"
      "| evaluation | axis | baseline | study | parameters (M) | difference | p (Holm) | |\n"
      "|---|---|---|---|---:|---:|---:|---|\n",
      scale["setting"].get<std::string>());
  std::vector<const Json*> points;
  for (const Json& point : scale["points"]) points.push_back(&point);
  const auto key = [](const Json* p) {
    return fmt::format("{}\n{}\n{}", (*p)["evaluation"].get<std::string>(), (*p)["axis"].get<std::string>(),
                       (*p)["baseline_kind"].get<std::string>());
  };
  std::stable_sort(points.begin(), points.end(),
                   [&](const Json* a, const Json* b) { return key(a) < key(b); });
  for (const Json* p : points) {
    const data::Estimate d = eval::metric_from_json((*p)["difference"], "difference");
    text += fmt::format("| {} | {} | {} | {} | {:.1f} | {:+.3f} [{:+.3f}, {:+.3f}] | {:.2g} | {} |\n",
                        (*p)["evaluation"].get<std::string>(), (*p)["axis"].get<std::string>(),
                        (*p)["baseline"].get<std::string>(), (*p)["study"].get<std::string>(),
                        (*p)["parameters"].get<double>() / 1e6, d.value, d.low, d.high,
                        (*p)["p_holm"].get<double>(), (*p)["word"].get<std::string>());
  }
  return text;
}

}  // namespace calyrex::study
