#include "calyrex/data/grader.h"

#include <array>
#include <utility>

#include "calyrex/base/error.h"
#include "calyrex/data/rule.h"

namespace calyrex::data {
namespace {

struct Counts {
  int64_t total = 0;
  int64_t joint = 0;
  int64_t rule = 0;
  int64_t content = 0;

  void add(const Verdict& verdict) {
    ++total;
    joint += verdict.joint();
    rule += verdict.rule_kept;
    content += verdict.content_present;
  }
  Measures measures() const {
    return {.joint = wilson_share(joint, total),
            .rule = wilson_share(rule, total),
            .content = wilson_share(content, total)};
  }
};

Measures mean_over(const std::vector<Counts>& groups) {
  std::vector<GroupCount> joint;
  std::vector<GroupCount> rule;
  std::vector<GroupCount> content;
  for (const Counts& counts : groups) {
    joint.push_back({counts.joint, counts.total});
    rule.push_back({counts.rule, counts.total});
    content.push_back({counts.content, counts.total});
  }
  return {.joint = mean_of_shares(joint), .rule = mean_of_shares(rule), .content = mean_of_shares(content)};
}

template <typename Matches>
Counts count_rows(const std::vector<RuleRow>& rows, const std::vector<Verdict>& verdicts, Matches matches) {
  Counts counts;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (matches(rows[i])) counts.add(verdicts[i]);
  }
  return counts;
}

Json measures_to_json(const Measures& measures) {
  Json json = Json::object();
  json["joint"] = estimate_to_json(measures.joint);
  json["rule_kept"] = estimate_to_json(measures.rule);
  json["content"] = estimate_to_json(measures.content);
  return json;
}

}  // namespace

Verdict grade_answer(const RuleRow& row, std::string_view answer) {
  return {.rule_kept = keeps_rule(row.checker, answer),
          .content_present = content_present(row.expected, content_part(row.checker, answer))};
}

std::vector<Verdict> grade_answers(const std::vector<RuleRow>& rows,
                                   const std::vector<std::string>& answers) {
  CALYREX_CHECK(rows.size() == answers.size(), "{} rows, {} answers", rows.size(), answers.size());
  std::vector<Verdict> verdicts;
  verdicts.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) verdicts.push_back(grade_answer(rows[i], answers[i]));
  return verdicts;
}

RuleReport summarize(const std::vector<RuleRow>& rows, const std::vector<Verdict>& verdicts) {
  CALYREX_CHECK(rows.size() == verdicts.size());
  RuleReport report;
  std::vector<Counts> trained;
  std::vector<Counts> untrained;
  for (const Rule& rule : all_rules()) {
    const Counts counts = count_rows(rows, verdicts, [&](const RuleRow& row) {
      return row.sort == RowSort::kRule && row.rule == rule.name;
    });
    if (counts.total == 0) continue;
    (rule.trained() ? trained : untrained).push_back(counts);
    report.rules.push_back({.rule = std::string(rule.name),
                            .label = std::string(rule.label),
                            .trained = rule.trained(),
                            .rows = counts.total,
                            .measures = counts.measures()});
  }
  for (const RowSort sort : {RowSort::kOverrule, RowSort::kIdle, RowSort::kOrdinary, RowSort::kNoSystem}) {
    const Counts counts = count_rows(rows, verdicts, [&](const RuleRow& row) { return row.sort == sort; });
    if (counts.total > 0)
      report.sorts.push_back({.sort = sort, .rows = counts.total, .measures = counts.measures()});
  }
  report.trained_mean = mean_over(trained);
  report.untrained_mean = mean_over(untrained);
  return report;
}

Estimate joint_difference(const std::vector<RuleRow>& rows, const std::vector<Verdict>& first,
                          const std::vector<Verdict>& second, uint64_t seed) {
  CALYREX_CHECK(rows.size() == first.size() && rows.size() == second.size());
  std::vector<std::vector<double>> groups;
  for (const Rule& rule : all_rules()) {
    if (!rule.trained()) continue;
    std::vector<double> differences;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].sort != RowSort::kRule || rows[i].rule != rule.name) continue;
      differences.push_back(static_cast<double>(second[i].joint()) - static_cast<double>(first[i].joint()));
    }
    groups.push_back(std::move(differences));
  }
  return bootstrap_group_mean(groups, seed);
}

Json estimate_to_json(const Estimate& estimate) {
  Json json = Json::object();
  json["value"] = estimate.value;
  json["low"] = estimate.low;
  json["high"] = estimate.high;
  return json;
}

Json report_to_json(const RuleReport& report) {
  Json json = Json::object();
  json["trained_mean"] = measures_to_json(report.trained_mean);
  json["untrained_mean"] = measures_to_json(report.untrained_mean);
  json["rules"] = Json::array();
  for (const RuleScore& score : report.rules) {
    Json entry = Json::object();
    entry["rule"] = score.rule;
    entry["label"] = score.label;
    entry["trained"] = score.trained;
    entry["rows"] = score.rows;
    entry.update(measures_to_json(score.measures));
    json["rules"].push_back(std::move(entry));
  }
  json["sorts"] = Json::array();
  for (const SortScore& score : report.sorts) {
    Json entry = Json::object();
    entry["sort"] = sort_name(score.sort);
    entry["rows"] = score.rows;
    entry.update(measures_to_json(score.measures));
    json["sorts"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace calyrex::data
