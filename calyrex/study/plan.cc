#include "calyrex/study/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/config_edit.h"
#include "calyrex/base/error.h"
#include "calyrex/base/fields.h"
#include "calyrex/train/match_params.h"

namespace calyrex::study {
namespace {

constexpr size_t kMaxRuns = 10'000;
constexpr double kFar = 0.005;  // as match_params warns

/// A key of a grid or run with one of its values.
struct Setting {
  std::string key;
  ConfigNode value;
};
using Combination = std::vector<Setting>;

/// Keys without a dot: shorthands and what only a study knows.
const std::vector<std::string>& short_keys() {
  static const std::vector<std::string> keys = {"kind", "placement", "seed", "arm", "name", "seeds"};
  return keys;
}

void check_key(const ConfigNode& value, const std::string& key, bool in_grid) {
  if (key == "model" || key == "output" || key.starts_with("model.") || key.starts_with("output.")) {
    fail(ErrorCode::kInvalidArgument, "{}: '{}' cannot differ between the runs of a study", value.place, key);
  }
  if (key.find('.') != std::string::npos) return;  // the training configuration's reader judges it
  std::vector<std::string> known = short_keys();
  if (in_grid)
    std::erase_if(known, [](const std::string& name) { return name == "name" || name == "seeds"; });
  if (std::find(known.begin(), known.end(), key) != known.end()) return;
  fields_internal::fail_unknown_key(value, key, known);
}

/// Every combination of a grid's values; the first key changes slowest.
std::vector<Combination> combinations(const ConfigNode& grid) {
  if (grid.kind != ConfigNode::Kind::kMap)
    fields_internal::fail_kind(grid, "grid", "a map of lists, or a list of such maps");
  std::vector<Combination> all = {{}};
  for (const auto& [key, values] : grid.entries) {
    check_key(values, key, /*in_grid=*/true);
    if (values.kind != ConfigNode::Kind::kList || values.items.empty())
      fields_internal::fail_kind(values, "grid." + key, "a list of at least one value");
    std::vector<Combination> longer;
    for (const Combination& combination : all) {
      for (const ConfigNode& value : values.items) {
        longer.push_back(combination);
        longer.back().push_back({.key = key, .value = value});
      }
    }
    all = std::move(longer);
    if (all.size() > kMaxRuns) {
      fail(ErrorCode::kInvalidArgument, "{}: the grid has more than {} runs", grid.place, kMaxRuns);
    }
  }
  return all;
}

/// An entry of `runs`, once for each of its `seeds`.
std::vector<Combination> single_runs(const ConfigNode& entry) {
  if (entry.kind != ConfigNode::Kind::kMap) fields_internal::fail_kind(entry, "runs", "a list of maps");
  Combination fixed;
  const ConfigNode* seeds = nullptr;
  for (const auto& [key, value] : entry.entries) {
    check_key(value, key, /*in_grid=*/false);
    if (key == "seeds") {
      seeds = &value;
    } else {
      fixed.push_back({.key = key, .value = value});
    }
  }
  if (seeds == nullptr) return {fixed};
  if (seeds->kind != ConfigNode::Kind::kList || seeds->items.empty())
    fields_internal::fail_kind(*seeds, "seeds", "a list of seeds");
  std::vector<Combination> all;
  for (const ConfigNode& seed : seeds->items) {
    all.push_back(fixed);
    all.back().push_back({.key = "seed", .value = seed});
  }
  return all;
}

/// Single runs first: a study's main ones.
std::vector<Combination> all_combinations(const ConfigNode& tree) {
  std::vector<Combination> all;
  const auto add = [&](std::vector<Combination> more) {
    for (Combination& combination : more) all.push_back(std::move(combination));
  };
  const ConfigNode* runs = tree.find("runs");
  const ConfigNode* grid = tree.find("grid");
  const auto written = [](const ConfigNode* node) {
    return node != nullptr && node->kind != ConfigNode::Kind::kNull;
  };
  if (written(runs)) {
    if (runs->kind != ConfigNode::Kind::kList) fields_internal::fail_kind(*runs, "runs", "a list of maps");
    for (const ConfigNode& entry : runs->items) add(single_runs(entry));
  }
  if (written(grid) && grid->kind == ConfigNode::Kind::kList) {
    for (const ConfigNode& one : grid->items) add(combinations(one));
  } else if (written(grid)) {
    add(combinations(*grid));
  }
  if (all.empty()) fail(ErrorCode::kInvalidArgument, "{}: neither 'grid' nor 'runs' holds a run", tree.place);
  return all;
}

/// Text of a value as part of a name: "25_27", "rope".
std::string name_part(const ConfigNode& value) {
  const Json json = config_to_json(value);
  std::string text = json.is_string() ? json.get<std::string>() : json.dump();
  std::string name;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '+';
    if (plain) {
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

std::string full_key(const std::string& key) {
  if (key == "kind" || key == "placement") return "adapter." + key;
  if (key == "seed") return "train.seed";
  return key;
}

/// A combination's keys, sorted out.
class RunBuilder {
 public:
  RunBuilder(const StudyFile& file, const weights::ModelSource& model) : file_(file), model_(model) {}

  PlannedRun build(const Combination& combination) const {
    PlannedRun run;
    if (const ConfigNode* base = file_.tree.find("base")) run.tree = *base;
    if (run.tree.find("output") != nullptr) {
      fail(ErrorCode::kInvalidArgument, "{}: 'base.output' is chosen by the study; leave it out",
           run.tree.find("output")->place);
    }
    std::string given_name;
    std::string extras;
    bool fixes_rate = false;
    for (const auto& [key, value] : combination) {
      if (key == "name") {
        given_name = name_part(value);
      } else if (key == "arm") {
        read_arm(value, run);
      } else {
        const std::string dotted = full_key(key);
        set_entry(run.tree, dotted, value);
        fixes_rate = fixes_rate || dotted.starts_with("train.learning_rate");
        if (dotted != "adapter.kind" && dotted != "adapter.placement" && dotted != "train.seed")
          extras += fmt::format("-{}={}", dotted.substr(dotted.rfind('.') + 1), name_part(value));
      }
    }
    read_config(run, combination.empty() ? file_.tree.place : combination.front().value.place);
    run.chooses_rate = !fixes_rate && !file_.settings.select.learning_rate.empty();
    name_run(given_name, extras, run);
    return run;
  }

 private:
  void read_arm(const ConfigNode& value, PlannedRun& run) const {
    if (value.scalar != "equal_shape" && value.scalar != "equal_params")
      fields_internal::fail_kind(value, "arm", "one of equal_shape, equal_params");
    run.arm = value.scalar;
    if (run.arm != "equal_params") return;
    const ConfigNode* match = file_.tree.find("equal_params_to");
    set_entry(run.tree, "adapter.match_params",
              match != nullptr ? *match : config_from_json(file_.settings.equal_params_to, value.place));
  }

  void read_config(PlannedRun& run, const std::string& place) const {
    ConfigNode tree = run.tree;
    set_entry(tree, "output", config_from_json("the study's own", place));
    tree.place = place;
    run.config = train::parse_train_config(std::move(tree)).config;
    run.config->output.clear();
    const train::AdapterSettings& settings = run.config->adapter;
    run.kind = std::string(to_string(settings.kind));
    run.seed = run.config->train.seed;
    run.adapter = with_context(place, [&] { return train::make_adapter_config(settings, model_); });
    run.layers = run.adapter->placement;
    run.parameters = weights::count_parameters(*run.adapter);
    if (settings.kind == train::TrainedKind::kCal || settings.kind == train::TrainedKind::kParallelMlp)
      run.placement = train::placement_text(settings.placement);
    if (run.arm == "equal_params") check_budget(settings, run);
  }

  /// A budget that no width meets leaves the cell without a run.
  void check_budget(const train::AdapterSettings& settings, PlannedRun& run) const {
    const int64_t budget = weights::count_parameters(
        train::make_adapter_config(train::parse_match_params(settings.match_params), model_));
    const double deviation = static_cast<double>(run.parameters - budget) / static_cast<double>(budget);
    if (std::abs(deviation) <= kFar) return;
    run.not_applicable =
        run.kind == "cal" && run.adapter->cal.intermediate_size == 0
            ? fmt::format("attention alone has {} parameters, the budget is {}", run.parameters, budget)
            : fmt::format("the nearest size has {} parameters, the budget is {}", run.parameters, budget);
  }

  static void name_run(const std::string& given, const std::string& extras, PlannedRun& run) {
    if (!given.empty()) {
      run.setting = given;
    } else {
      run.setting = run.kind;
      if (run.placement) {
        ConfigNode text;
        text.kind = ConfigNode::Kind::kScalar;
        text.scalar = *run.placement;
        text.quoted = true;
        run.setting += "-" + name_part(text);
      }
      if (run.arm == "equal_params") run.setting += "-equal_params";
      run.setting += extras;
    }
    run.name = fmt::format("{}-s{}", run.setting, *run.seed);
  }

  const StudyFile& file_;
  const weights::ModelSource& model_;
};

/// Runs of one and the same configuration are run once.
void find_equal_runs(std::vector<PlannedRun>& runs) {
  std::map<std::string, std::string> seen;
  for (PlannedRun& run : runs) {
    if (!run.config || run.not_applicable) continue;
    train::TrainConfig config = *run.config;
    config.adapter.match_params = nullptr;
    Json key = write_fields(config);
    if (config.adapter.kind != train::TrainedKind::kFull) {
      key["adapter"]["placement"] = run.layers;
      key["adapter"][run.kind] = weights::adapter_section_to_json(*run.adapter);
    }
    key["chooses_rate"] = run.chooses_rate;
    const auto [entry, is_new] = seen.emplace(to_json_line(key), run.name);
    if (!is_new) run.same_as = entry->second;
  }
}

void check_names(const std::vector<PlannedRun>& runs, const ConfigNode& tree) {
  constexpr size_t kLongest = 255;  // bytes of a file's name
  std::map<std::string, int> seen;
  for (const PlannedRun& run : runs) {
    if (run.name.size() > kLongest) {
      fail(ErrorCode::kInvalidArgument,
           "{}: the run '{}...' has a name of {} bytes; a folder's has at most {}: give it a shorter 'name'",
           tree.place, run.name.substr(0, 40), run.name.size(), kLongest);
    }
    if (++seen[run.name] == 2) {
      fail(ErrorCode::kInvalidArgument, "{}: two runs have the name '{}'; give one of them a name of its own",
           tree.place, run.name);
    }
  }
}

/// Runs of one setting are its seeds and nothing else; the untouched model's name is its own.
void check_settings_are_one(const std::vector<PlannedRun>& runs, const ConfigNode& tree) {
  std::map<std::string, std::pair<std::string, std::string>> seen;  // setting: configuration, run
  for (const PlannedRun& run : runs) {
    if (run.setting == "base" && run.kind != "base") {
      fail(ErrorCode::kInvalidArgument,
           "{}: 'base' is the name of the untouched model; give run '{}' another", tree.place, run.name);
    }
    if (!run.config) continue;
    Json key = write_fields(*run.config);
    key["train"].erase("seed");
    const auto [entry, is_new] = seen.try_emplace(run.setting, to_json_line(key), run.name);
    if (!is_new && entry->second.first != to_json_line(key)) {
      fail(ErrorCode::kInvalidArgument,
           "{}: runs '{}' and '{}' have one name but differ in more than the seed; give one of them another "
           "name",
           tree.place, entry->second.second, run.name);
    }
  }
}

/// Settings that evaluations and `baselines` name must exist.
void check_named_settings(const StudyFile& file, const std::vector<PlannedRun>& runs) {
  std::vector<std::string> known;
  for (const PlannedRun& run : runs) {
    if (std::find(known.begin(), known.end(), run.setting) == known.end()) known.push_back(run.setting);
  }
  const auto check = [&](const std::string& setting, const std::string& who) {
    if (std::find(known.begin(), known.end(), setting) != known.end()) return;
    const std::string near = nearest_word(setting, known);
    fail(ErrorCode::kInvalidArgument, "{}: {} '{}', which the study lacks; {}", file.tree.place, who, setting,
         near.empty() ? fmt::format("it has {}", fmt::join(known, ", "))
                      : fmt::format("did you mean '{}'?", near));
  };
  for (const EvalEntry& entry : file.settings.eval) {
    for (const std::string& setting : entry.only)
      check(setting, fmt::format("eval '{}' is only for setting", entry.name));
  }
  for (const std::string& setting : file.settings.baselines) check(setting, "'baselines' names the setting");
}

}  // namespace

std::vector<PlannedRun> plan_runs(const StudyFile& file, const weights::ModelSource& model) {
  std::vector<PlannedRun> runs;
  PlannedRun base;
  base.name = base.setting = base.kind = "base";
  runs.push_back(std::move(base));
  const RunBuilder builder(file, model);
  for (const Combination& combination : all_combinations(file.tree)) {
    runs.push_back(builder.build(combination));
  }
  check_names(runs, file.tree);
  check_settings_are_one(runs, file.tree);
  check_named_settings(file, runs);
  find_equal_runs(runs);
  return runs;
}

Json plan_to_json(const std::vector<PlannedRun>& runs) {
  Json list = Json::array();
  for (const PlannedRun& run : runs) {
    Json json;
    json["name"] = run.name;
    json["setting"] = run.setting;
    json["kind"] = run.kind;
    json["placement"] = run.placement ? Json(*run.placement) : Json();
    json["layers"] = run.layers;
    json["arm"] = run.kind == "base" ? Json() : Json(run.arm);
    json["seed"] = run.seed ? Json(*run.seed) : Json();
    json["parameters"] = run.parameters;
    json["not_applicable"] = run.not_applicable ? Json(*run.not_applicable) : Json();
    json["same_as"] = run.same_as ? Json(*run.same_as) : Json();
    json["states_layer"] = run.states_layer ? Json(*run.states_layer) : Json();
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace calyrex::study
