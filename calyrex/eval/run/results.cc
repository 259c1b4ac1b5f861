#include "calyrex/eval/run/results.h"

#include "calyrex/base/error.h"
#include "calyrex/data/grader.h"

namespace calyrex::eval {
namespace {

constexpr size_t kMaxListed = 100;

}  // namespace

Json make_results(const Task& task, const Samples& samples, const std::vector<Outcome>& outcomes,
                  const Json& description) {
  CALYREX_CHECK(samples.size() == outcomes.size());
  std::vector<Graded> graded;
  Json ungraded_list = Json::array();
  int64_t ungraded = 0;
  int64_t not_applicable = 0;
  int64_t truncated = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    truncated += outcomes[i].truncated ? 1 : 0;
    if (outcomes[i].not_applicable) {
      ++not_applicable;
    } else if (const auto& reason = outcomes[i].verdict.ungraded) {
      ++ungraded;
      if (ungraded_list.size() < kMaxListed) {
        ungraded_list.push_back({{"id", samples[i]->id()}, {"reason", *reason}});
      }
    } else {
      graded.push_back({.sample = samples[i].get(), .verdict = outcomes[i].verdict});
    }
  }
  Json metrics = Json::object();
  if (!graded.empty()) {
    for (const auto& [name, estimate] : task.metrics(graded))
      metrics[name] = data::estimate_to_json(estimate);
  }
  Json results;
  results["task"] = task.info().name;
  results["n"] = graded.size();
  results["metrics"] = std::move(metrics);
  for (const auto& [key, value] : description.items()) results[key] = value;
  results["headline"] = task.info().headline;
  results["samples"] = samples.size();
  results["ungraded"] = ungraded;
  results["ungraded_samples"] = std::move(ungraded_list);
  results["not_applicable"] = not_applicable;
  results["truncated"] = truncated;
  results["scorer_version"] = task.info().scorer_version;
  return results;
}

data::Estimate metric_from_json(const Json& json, std::string_view source) {
  try {
    return {.value = json.at("value").get<double>(),
            .low = json.at("low").get<double>(),
            .high = json.at("high").get<double>()};
  } catch (const Json::exception&) {
    fail(ErrorCode::kCorruptData, "{}: not a metric", source);
  }
}

}  // namespace calyrex::eval
