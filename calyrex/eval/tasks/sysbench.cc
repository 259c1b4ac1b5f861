#include "calyrex/eval/tasks/sysbench.h"

#include <memory>
#include <optional>
#include <utility>

#include "calyrex/base/error.h"
#include "calyrex/eval/core/form.h"
#include "calyrex/eval/core/metrics.h"
#include "calyrex/eval/tasks/row_fields.h"
#include "calyrex/eval/tasks/sysbench_literal.h"
#include "calyrex/eval/tasks/tasks.h"

namespace calyrex::eval {
namespace {

constexpr int64_t kAnswerTokens = 1024;

class SysbenchSample final : public Sample {
 public:
  SysbenchSample(SysbenchDialogue dialogue, const LoadOptions& options)
      : dialogue_(std::move(dialogue)), judge_(options.judge) {
    opening_ = dialogue_in_form(options, {{.role = "system", .content = dialogue_.system},
                                          {.role = "user", .content = dialogue_.turns[0].user}});
  }

  std::string id() const override { return std::to_string(dialogue_.system_id); }

  Json prompt() const override {
    text::Messages messages = opening_;
    for (size_t turn = 1; turn < num_turns(); ++turn) {
      messages.push_back({.role = "user", .content = dialogue_.turns[turn].user});
    }
    return text::messages_to_json(messages);
  }

  std::vector<Ask> next(std::span<const Reply> replies) const override {
    if (replies.size() < num_turns()) {
      return {GenerateAsk{.messages = history(opening_, replies, replies.size()),
                          .max_new_tokens = kAnswerTokens}};
    }
    std::vector<Ask> asks;
    if (!judge_ || replies.size() != num_turns()) return asks;
    // The judge reads the system prompt as such, whatever form the model saw.
    const text::Messages judged = {{.role = "system", .content = dialogue_.system},
                                   {.role = "user", .content = dialogue_.turns[0].user}};
    for (size_t turn = 0; turn < num_turns(); ++turn) {
      asks.push_back(sysbench_judge_ask(history(judged, replies, turn), replies[turn].text,
                                        dialogue_.turns[turn].checklist()));
    }
    return asks;
  }

  Verdict grade(std::span<const Reply> replies) const override {
    Verdict verdict;
    if (replies.size() < num_turns()) {
      verdict.ungraded = fmt::format("{} of {} answers", replies.size(), num_turns());
      return verdict;
    }
    grade_literals(replies, verdict);
    if (judge_) {
      grade_judged(replies.subspan(num_turns()), verdict);
    } else if (verdict.scores.empty()) {
      verdict.ungraded = "needs a judge (none of its criteria can be checked without one)";
    }
    return verdict;
  }

 private:
  size_t num_turns() const { return dialogue_.turns.size(); }

  /// The dialogue up to the user's turn number `turn`, with the model's own answers.
  text::Messages history(text::Messages messages, std::span<const Reply> replies, size_t turn) const {
    for (size_t earlier = 0; earlier < turn; ++earlier) {
      messages.push_back({.role = "assistant", .content = replies[earlier].text});
      messages.push_back({.role = "user", .content = dialogue_.turns[earlier + 1].user});
    }
    return messages;
  }

  void grade_literals(std::span<const Reply> replies, Verdict& verdict) const {
    int64_t checked = 0;
    int64_t passed = 0;
    for (size_t turn = 0; turn < num_turns(); ++turn) {
      for (const SysbenchCriterion& entry : dialogue_.turns[turn].criteria) {
        if (const auto check = parse_literal_check(entry.criterion.text)) {
          ++checked;
          passed += passes_literal(*check, replies[turn].text);
        }
      }
    }
    if (checked == 0) return;
    verdict.scores["literal_criteria"] = static_cast<double>(checked);
    verdict.scores["literal_satisfied"] = static_cast<double>(passed);
  }

  void grade_judged(std::span<const Reply> judgements, Verdict& verdict) const {
    std::vector<TurnDecisions> decisions;
    Json& shown = verdict.detail["verdicts"] = Json::array();
    for (size_t turn = 0; turn < num_turns(); ++turn) {
      const std::string answer = turn < judgements.size() ? judgements[turn].text : "";
      const auto read = read_judgement(answer, criterion_ids(dialogue_.turns[turn].checklist()));
      if (!read) {
        verdict.ungraded = fmt::format("the judge's answer on turn {} cannot be read", turn + 1);
        verdict.detail["judge_answer"] = answer.substr(0, 2000);
        verdict.scores.clear();
        return;
      }
      Json words = Json::object();
      for (const auto& [id, decision] : *read) words[id] = std::string(decision_name(decision));
      shown.push_back(std::move(words));
      decisions.push_back(*read);
    }
    verdict.scores.merge(sysbench_scores(dialogue_, decisions));
  }

  SysbenchDialogue dialogue_;
  text::Messages opening_;
  bool judge_ = false;
};

class SysbenchTask final : public Task {
 public:
  const TaskInfo& info() const override {
    static const TaskInfo info = {
        .name = "sysbench",
        .measures =
            "system prompts over five turns: criteria, turns and sessions satisfied (Chinese, judged)",
        .source =
            "PKU-Baichuan-MLSystemLab/SysBench on GitHub: system_benchmark_eval_datas.json "
            "(or system_benchmark_eval_datas.reconstructed.json)",
        .licence = "none stated: for your own evaluation, not to be passed on",
        .forms = {Form::kSystem, Form::kUser},
        .needs_judge = true,
        .scorer_version = "1",
        .headline = {"csr", "isr", "ssr", "literal_csr"}};
    return info;
  }

  Samples load(const LoadOptions& options) const override {
    require_form(info(), options.form);
    Samples samples;
    for (SysbenchDialogue& dialogue :
         options.sample ? sysbench_sample() : read_sysbench(find_sysbench_file(options.data))) {
      samples.push_back(std::make_unique<SysbenchSample>(std::move(dialogue), options));
    }
    return samples;
  }

  Metrics metrics(std::span<const Graded> graded) const override { return sysbench_metrics(graded); }
};

/// The decisions of every turn; nothing when a turn or a criterion is left out.
std::optional<std::vector<TurnDecisions>> decisions_of(const SysbenchDialogue& dialogue,
                                                       const VerdictTable& verdicts) {
  std::vector<TurnDecisions> decisions;
  for (const SysbenchTurn& turn : dialogue.turns) {
    const auto number = static_cast<int64_t>(decisions.size()) + 1;
    const auto found = verdicts.find({dialogue.system_id, number});
    if (found == verdicts.end()) return std::nullopt;
    for (const SysbenchCriterion& entry : turn.criteria) {
      if (!found->second.decisions.contains(entry.criterion.id)) return std::nullopt;
    }
    decisions.push_back(found->second.decisions);
  }
  return decisions;
}

}  // namespace

std::map<std::string, double> sysbench_scores(const SysbenchDialogue& dialogue,
                                              const std::vector<TurnDecisions>& decisions) {
  CALYREX_CHECK(decisions.size() == dialogue.turns.size(), "decisions of {} turns", decisions.size());
  std::map<std::string, double> scores;
  double first_turns = 0.0;
  bool unbroken = true;
  for (size_t turn = 0; turn < decisions.size(); ++turn) {
    bool holds = true;
    for (const SysbenchCriterion& entry : dialogue.turns[turn].criteria) {
      const Decision decision = decisions[turn].at(entry.criterion.id);
      const double satisfied = decision == Decision::kYes ? 1.0 : 0.0;
      holds = holds && decision != Decision::kNo;
      scores["criteria"] += 1.0;
      scores["satisfied"] += satisfied;
      scores["criteria_" + entry.type] += 1.0;
      scores["satisfied_" + entry.type] += satisfied;
    }
    const std::string group = dialogue.turns[turn].aligned ? "_aligned" : "_misaligned";
    for (const std::string& suffix : {std::string(), group}) {
      scores["turns" + suffix] += 1.0;
      scores["turns_held" + suffix] += holds ? 1.0 : 0.0;
    }
    unbroken = unbroken && holds;
    first_turns += unbroken ? 1.0 : 0.0;
  }
  const double session = first_turns / static_cast<double>(decisions.size());
  scores["session"] = session;
  scores[dialogue.turns_related ? "session_dependent" : "session_parallel"] = session;
  return scores;
}

Metrics sysbench_metrics(std::span<const Graded> graded) {
  Metrics metrics;
  const auto add_ratio = [&](const std::string& name, const std::string& part, const std::string& whole) {
    if (has_score(graded, whole)) metrics[name] = ratio_of(graded, part, whole);
  };
  add_ratio("csr", "satisfied", "criteria");
  for (const char* type : {"content", "action", "style", "format", "role", "background", "other"}) {
    add_ratio(fmt::format("csr_{}", type), fmt::format("satisfied_{}", type),
              fmt::format("criteria_{}", type));
  }
  add_ratio("isr", "turns_held", "turns");
  add_ratio("isr_aligned", "turns_held_aligned", "turns_aligned");
  add_ratio("isr_misaligned", "turns_held_misaligned", "turns_misaligned");
  for (const char* suffix : {"", "_dependent", "_parallel"}) {
    const std::string score = fmt::format("session{}", suffix);
    if (has_score(graded, score)) metrics[fmt::format("ssr{}", suffix)] = mean_of(graded, score);
  }
  add_ratio("literal_csr", "literal_satisfied", "literal_criteria");
  return metrics;
}

Metrics metrics_of_verdicts(const std::vector<SysbenchDialogue>& dialogues, const VerdictTable& verdicts) {
  std::vector<Graded> graded;
  for (const SysbenchDialogue& dialogue : dialogues) {
    if (const auto decisions = decisions_of(dialogue, verdicts)) {
      graded.push_back({.sample = nullptr, .verdict = {.scores = sysbench_scores(dialogue, *decisions)}});
    }
  }
  return sysbench_metrics(graded);
}

const Task& sysbench_task() {
  static const SysbenchTask task;
  return task;
}

}  // namespace calyrex::eval
