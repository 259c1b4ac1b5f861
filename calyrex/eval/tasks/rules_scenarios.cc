#include "calyrex/eval/tasks/rules_scenarios.h"

#include <memory>
#include <utility>

#include "calyrex/base/error.h"
#include "calyrex/base/fields.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/core/metrics.h"
#include "calyrex/eval/tasks/row_fields.h"
#include "calyrex/eval/tasks/tasks.h"

namespace calyrex::eval {
namespace {

constexpr int64_t kAnswerTokens = 128;
constexpr int64_t kCasesPerScenario = 20;
constexpr size_t kMaxTurns = 64;

class ScenarioSample final : public Sample {
 public:
  ScenarioSample(ScenarioCase scenario_case, const LoadOptions& options) : case_(std::move(scenario_case)) {
    opening_ = dialogue_in_form(options, {{.role = "system", .content = case_.scenario->state(case_.params)},
                                          {.role = "user", .content = case_.turns[0]}});
  }

  std::string id() const override { return case_.id; }

  Json prompt() const override {
    text::Messages messages = opening_;
    for (size_t turn = 1; turn < case_.turns.size(); ++turn) {
      messages.push_back({.role = "user", .content = case_.turns[turn]});
    }
    return text::messages_to_json(messages);
  }

  std::vector<Ask> next(std::span<const Reply> replies) const override {
    if (replies.size() >= case_.turns.size()) return {};
    text::Messages messages = opening_;
    for (size_t turn = 0; turn < replies.size(); ++turn) {
      messages.push_back({.role = "assistant", .content = replies[turn].text});
      messages.push_back({.role = "user", .content = case_.turns[turn + 1]});
    }
    return {GenerateAsk{.messages = std::move(messages), .max_new_tokens = kAnswerTokens}};
  }

  Verdict grade(std::span<const Reply> replies) const override {
    Verdict verdict;
    verdict.detail = {{"scenario", std::string(case_.scenario->name)}, {"kind", case_.kind}};
    if (replies.size() < case_.turns.size()) {
      verdict.ungraded = fmt::format("{} of {} answers", replies.size(), case_.turns.size());
      return verdict;
    }
    const bool holds =
        case_.scenario->holds(case_.params, case_.turns.back(), replies[case_.turns.size() - 1].text);
    for (const std::string& name :
         {std::string("kept"), "kept_" + std::string(case_.scenario->name), "kept_" + case_.kind}) {
      verdict.scores[name] = holds ? 1.0 : 0.0;
    }
    return verdict;
  }

 private:
  ScenarioCase case_;
  text::Messages opening_;
};

std::string read_value(const Json& value, const RowFields& params, std::string_view name) {
  if (value.is_number_integer()) return value.dump();
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    params.fail_field(name, "text that is not empty, or a whole number");
  }
  return value.get<std::string>();
}

/// A row of RuLES' own test suites: {"scenario", "params", "messages": [{"role", "content"}], "id"?}; its
/// user turns are taken.
ScenarioCase read_case(const RowFields& row, int64_t number) {
  const std::string full_name = row.text("scenario");
  const std::string name = full_name.substr(0, full_name.find('_'));  // "Authentication_withhold"
  ScenarioCase result{.scenario = find_scenario(name), .id = {}, .kind = "given", .params = {}, .turns = {}};
  if (result.scenario == nullptr) {
    std::vector<std::string> names;
    for (const Scenario& scenario : all_scenarios()) names.emplace_back(scenario.name);
    const std::string nearest = nearest_word(name, names);
    row.fail_field("scenario", nearest.empty()
                                   ? "one of the fourteen scenarios"
                                   : fmt::format("a known scenario (did you mean '{}'?)", nearest));
  }
  result.id = fmt::format("{}:{}", full_name, row.optional_text("id").value_or(std::to_string(number)));
  const RowFields params = row.object("params");
  for (const ScenarioField& field : result.scenario->fields) {
    const Json& value = params.json(field.name);
    std::vector<std::string>& values = result.params[std::string(field.name)];
    if (field.count == 1) {
      values.push_back(read_value(value, params, field.name));
      continue;
    }
    if (!value.is_array() || value.size() != field.count) {
      params.fail_field(field.name, fmt::format("a list of {}", field.count));
    }
    for (const Json& item : value) values.push_back(read_value(item, params, field.name));
  }
  for (const RowFields& message : row.objects("messages", 2 * kMaxTurns)) {
    if (message.text("role") == "user") result.turns.push_back(message.filled_text("content"));
  }
  if (result.turns.empty()) row.fail_field("messages", "at least one message of the user");
  return result;
}

class ScenariosTask final : public Task {
 public:
  const TaskInfo& info() const override {
    static const TaskInfo info = {
        .name = "rules_scenarios",
        .measures =
            "fourteen RuLES-type scenarios: rules of a system message under attack, tested by program",
        .source =
            "generated here from --seed; or rows {\"scenario\", \"params\", \"messages\"} of "
            "normster/llm_rules "
            "(rules.jsonl)",
        .licence = "generated rows: the project's own; public rows: Apache-2.0",
        .forms = {Form::kSystem, Form::kUser},
        .needs_judge = false,
        .scorer_version = "1",
        .headline = {"kept", "kept_leak", "kept_leak_later", "kept_comply", "kept_derail"}};
    return info;
  }

  Samples load(const LoadOptions& options) const override {
    require_form(info(), options.form);
    Samples samples;
    if (!options.sample && !options.data.empty()) {
      for_each_data_row(find_data_file(options.data, {"rules.jsonl"}), [&](const RowFields& row) {
        samples.push_back(std::make_unique<ScenarioSample>(
            read_case(row, static_cast<int64_t>(samples.size()) + 1), options));
      });
      return samples;
    }
    for (ScenarioCase& one : generate_scenario_cases(options.seed, options.sample ? 1 : kCasesPerScenario)) {
      samples.push_back(std::make_unique<ScenarioSample>(std::move(one), options));
    }
    return samples;
  }

  Metrics metrics(std::span<const Graded> graded) const override {
    Metrics metrics;
    std::vector<std::string> names = {"kept", "kept_leak", "kept_leak_later", "kept_comply", "kept_derail"};
    for (const Scenario& scenario : all_scenarios()) names.push_back("kept_" + std::string(scenario.name));
    for (const std::string& name : names) {
      if (has_score(graded, name)) metrics[name] = share_of(graded, name);
    }
    return metrics;
  }
};

}  // namespace

const Task& rules_scenarios_task() {
  static const ScenariosTask task;
  return task;
}

}  // namespace calyrex::eval
