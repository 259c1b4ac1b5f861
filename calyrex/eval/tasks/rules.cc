// The project's own rule set: system messages with checkable rules, graded by program.
#include <memory>
#include <utility>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/data/ask.h"
#include "calyrex/data/grader.h"
#include "calyrex/data/row.h"
#include "calyrex/data/rule_files.h"
#include "calyrex/data/rule_rows.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/tasks/prompt_sample.h"
#include "calyrex/eval/tasks/row_fields.h"
#include "calyrex/eval/tasks/tasks.h"

namespace calyrex::eval {
namespace {

constexpr int64_t kAnswerTokens = 96;

class RuleSample final : public AskOnceSample {
 public:
  RuleSample(data::RuleRow row, const LoadOptions& options)
      : AskOnceSample(row.id, {.messages = dialogue_in_form(options, data::question_messages(row)),
                               .max_new_tokens = kAnswerTokens}),
        row_(std::move(row)) {}

  const data::RuleRow& row() const { return row_; }

  Verdict grade(std::span<const Reply> replies) const override {
    const data::Verdict graded = data::grade_answer(row_, replies[0].text);
    Verdict verdict;
    verdict.scores = {{"joint", graded.joint()},
                      {"rule_kept", graded.rule_kept},
                      {"content_present", graded.content_present}};
    verdict.detail = {{"rule", row_.rule}, {"sort", std::string(data::sort_name(row_.sort))}};
    return verdict;
  }

 private:
  data::RuleRow row_;
};

void add_measures(Metrics& metrics, const std::string& suffix, const data::Measures& measures) {
  metrics["joint" + suffix] = measures.joint;
  metrics["rule_kept" + suffix] = measures.rule;
  metrics["content_present" + suffix] = measures.content;
}

class RulesTask final : public Task {
 public:
  const TaskInfo& info() const override {
    static const TaskInfo info = {
        .name = "rules",
        .measures = "this project's checkable system rules: rule kept and content present, mean over rules",
        .source = "generated here from --seed; or test.jsonl of 'calyrex data build'",
        .licence = "the project's own",
        .forms = {Form::kSystem, Form::kUser},
        .needs_judge = false,
        .scorer_version = "1",
        .headline = {"joint", "rule_kept", "content_present", "joint_overrule", "joint_untrained"}};
    return info;
  }

  Samples load(const LoadOptions& options) const override {
    require_form(info(), options.form);
    Samples samples;
    for (data::RuleRow& row : rows_of(options)) {
      samples.push_back(std::make_unique<RuleSample>(std::move(row), options));
    }
    return samples;
  }

  Metrics metrics(std::span<const Graded> graded) const override {
    std::vector<data::RuleRow> rows;
    std::vector<data::Verdict> verdicts;
    for (const Graded& entry : graded) {
      const auto* sample = dynamic_cast<const RuleSample*>(entry.sample);
      CALYREX_CHECK(sample != nullptr, "a sample of another task");
      rows.push_back(sample->row());
      verdicts.push_back({.rule_kept = entry.verdict.scores.at("rule_kept") != 0.0,
                          .content_present = entry.verdict.scores.at("content_present") != 0.0});
    }
    const data::RuleReport report = data::summarize(rows, verdicts);
    Metrics metrics;
    add_measures(metrics, "", report.trained_mean);
    bool has_untrained = false;
    for (const data::RuleScore& score : report.rules) has_untrained = has_untrained || !score.trained;
    if (has_untrained) add_measures(metrics, "_untrained", report.untrained_mean);
    for (const data::SortScore& score : report.sorts) {
      add_measures(metrics, fmt::format("_{}", data::sort_name(score.sort)), score.measures);
    }
    return metrics;
  }

 private:
  static std::vector<data::RuleRow> rows_of(const LoadOptions& options) {
    if (!options.sample && !options.data.empty()) {
      return data::read_rule_rows(find_data_file(options.data, {"test.jsonl"}));
    }
    data::RuleDataOptions generated{.seed = options.seed, .train_rows = 1, .dev_rows_per_rule = 0};
    if (options.sample) {
      generated.rules = {"upper_case", "begins_with"};
      generated.test_rows_per_rule = 2;
      generated.test_overrule_rows_per_rule = 1;
    }
    return data::build_rule_data(generated).test;
  }
};

}  // namespace

const Task& rules_task() {
  static const RulesTask task;
  return task;
}

}  // namespace calyrex::eval
