// Grades answers to rule rows by program: the joint measure (rule kept and content present), and both parts
// apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/data/rule_rows.h"
#include "calyrex/data/statistics.h"

namespace calyrex::data {

struct Verdict {
  bool rule_kept = false;
  bool content_present = false;

  bool joint() const { return rule_kept && content_present; }
  bool operator==(const Verdict&) const = default;
};

Verdict grade_answer(const RuleRow& row, std::string_view answer);
/// One verdict a row; `answers` are in the rows' order.
std::vector<Verdict> grade_answers(const std::vector<RuleRow>& rows, const std::vector<std::string>& answers);

/// The three measures of a group of rows.
struct Measures {
  Estimate joint;
  Estimate rule;
  Estimate content;
};

/// A rule's own rows (sort rule), with Wilson intervals.
struct RuleScore {
  std::string rule;
  std::string label;
  bool trained = true;
  int64_t rows = 0;
  Measures measures;
};

/// Rows of another sort, pooled over rules, with Wilson intervals.
struct SortScore {
  RowSort sort = RowSort::kOverrule;
  int64_t rows = 0;
  Measures measures;
};

struct RuleReport {
  std::vector<RuleScore> rules;  // in the catalogue's order, never-trained ones last
  std::vector<SortScore> sorts;  // overrule, idle, ordinary, no_system; those that have rows
  Measures trained_mean;         // unweighted over the trained rules
  Measures untrained_mean;
};

RuleReport summarize(const std::vector<RuleRow>& rows, const std::vector<Verdict>& verdicts);

/// Paired difference (second minus first) of the joint measure's mean over trained rules; seeded bootstrap.
Estimate joint_difference(const std::vector<RuleRow>& rows, const std::vector<Verdict>& first,
                          const std::vector<Verdict>& second, uint64_t seed);

Json estimate_to_json(const Estimate& estimate);  // {"value", "low", "high"}
Json report_to_json(const RuleReport& report);

}  // namespace calyrex::data
