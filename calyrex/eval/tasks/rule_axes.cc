// The project's rules on four axes: plain, under attack, behind filler, after ten turns.
#include "calyrex/data/rule_axes.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/data/grader.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/tasks/row_fields.h"
#include "calyrex/eval/tasks/sample_lists.h"
#include "calyrex/eval/tasks/tasks.h"

namespace calyrex::eval {
namespace {

constexpr int64_t kAnswerTokens = 96;
constexpr int64_t kEarlierAnswerTokens = 48;
constexpr auto kScores = {"joint", "rule_kept", "content_present"};

class AxisSample final : public Sample {
 public:
  AxisSample(data::AxisRow row, const LoadOptions& options) : row_(std::move(row)), options_(options) {}

  const data::AxisRow& row() const { return row_; }
  std::string id() const override { return row_.row.id; }
  Json prompt() const override {
    Json json = text::messages_to_json(chat({}));
    // Thousands of words of filler are named, not shown.
    constexpr size_t kShown = 2000;
    for (Json& message : json) {
      const auto& content = message["content"].get_ref<const std::string&>();
      if (content.size() > kShown)
        message["content"] =
            fmt::format("[{} bytes, ending in] {}", content.size(), content.substr(content.rfind('\n') + 1));
    }
    return json;
  }

  std::vector<Ask> next(std::span<const Reply> replies) const override {
    const size_t earlier = row_.first_questions.size();
    if (replies.size() > earlier) return {};
    return {GenerateAsk{.messages = chat(replies),
                        .max_new_tokens = replies.size() == earlier ? kAnswerTokens : kEarlierAnswerTokens}};
  }

  Verdict grade(std::span<const Reply> replies) const override {
    const data::Verdict graded = data::grade_answer(row_.row, replies.back().text);
    Verdict verdict;
    verdict.scores = {{"joint", graded.joint()},
                      {"rule_kept", graded.rule_kept},
                      {"content_present", graded.content_present}};
    verdict.detail = {{"rule", row_.row.rule}, {"axis", std::string(row_.variant.name)}};
    return verdict;
  }

 private:
  /// The chat up to the question that follows `replies`.
  text::Messages chat(std::span<const Reply> replies) const {
    text::Messages messages = {{.role = "system", .content = row_.row.system}};
    messages.insert(messages.end(), row_.earlier.begin(), row_.earlier.end());
    for (size_t i = 0; i < replies.size() && i < row_.first_questions.size(); ++i) {
      messages.push_back({.role = "user", .content = row_.first_questions[i]});
      messages.push_back({.role = "assistant", .content = replies[i].text});
    }
    const bool last = replies.size() >= row_.first_questions.size();
    messages.push_back(
        {.role = "user", .content = last ? row_.row.user : row_.first_questions[replies.size()]});
    return dialogue_in_form(options_, messages);
  }

  data::AxisRow row_;
  LoadOptions options_;
};

std::string variant_of(const Graded& entry) { return entry.verdict.detail.at("axis").get<std::string>(); }

/// A score on one variant, mean over rules.
data::Estimate mean_over_rules(std::span<const Graded> graded, const std::string& variant,
                               const char* score) {
  std::map<std::string, data::GroupCount> rules;
  for (const Graded& entry : graded) {
    if (variant_of(entry) != variant) continue;
    data::GroupCount& count = rules[entry.verdict.detail.at("rule").get<std::string>()];
    ++count.total;
    count.passed += entry.verdict.scores.at(score) != 0.0;
  }
  std::vector<data::GroupCount> counts;
  for (const auto& [rule, count] : rules) counts.push_back(count);
  return data::mean_of_shares(counts);
}

std::vector<std::string> headline_metrics() {
  std::vector<std::string> names;
  for (const data::AxisVariant& variant : data::axis_variants())
    names.push_back(fmt::format("joint/{}", variant.name));
  return names;
}

data::Split split_of(const LoadOptions& options) {
  if (options.split == "train") return data::Split::kTrain;
  return options.split == "dev" ? data::Split::kDev : data::Split::kTest;
}

class RuleAxesTask final : public Task {
 public:
  const TaskInfo& info() const override {
    static const TaskInfo info = {
        .name = "rule_axes",
        .measures =
            "this project's trained rules asked plainly, under attack (override, fake system header, 16 "
            "turns "
            "that break the rule; each also with a defensive rule), behind 2k, 4k and 7k tokens of filler "
            "(by "
            "bytes), and after ten turns of the model's own; rule kept and content present, mean over rules",
        .source =
            "generated here from --seed; --split train, dev or test has its own questions, wordings and "
            "attacks",
        .licence = "the project's own",
        .forms = {Form::kSystem, Form::kUser},
        .needs_judge = false,
        .scorer_version = "1",
        .headline = headline_metrics(),
        .splits = {"test", "dev", "train"},
        .axes = {"plain", "attack", "filler", "turns"}};
    return info;
  }

  Samples load(const LoadOptions& options) const override {
    require_form(info(), options.form);
    require_no_shots(info(), options);
    if (!options.data.empty()) {
      fail(ErrorCode::kInvalidArgument, "{} makes its rows itself: leave --data out", info().name);
    }
    data::AxisOptions axes{
        .seed = options.seed, .split = split_of(options), .axis = options.axis, .rules = {}};
    if (options.sample) axes.rules = {"upper_case"};
    Samples samples;
    std::set<std::string_view> seen;
    for (data::AxisRow& row : data::build_axis_rows(axes)) {
      // To try it out, one row of each variant will do.
      if (options.sample && !seen.insert(row.variant.name).second) continue;
      samples.push_back(std::make_unique<AxisSample>(std::move(row), options));
    }
    return samples;
  }

  Metrics metrics(std::span<const Graded> graded) const override {
    std::set<std::string> variants;
    for (const Graded& entry : graded) variants.insert(variant_of(entry));
    Metrics metrics;
    for (const std::string& variant : variants) {
      for (const char* score : kScores)
        metrics[fmt::format("{}/{}", score, variant)] = mean_over_rules(graded, variant, score);
    }
    return metrics;
  }
};

}  // namespace

const Task& rule_axes_task() {
  static const RuleAxesTask task;
  return task;
}

}  // namespace calyrex::eval
