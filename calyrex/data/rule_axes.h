// Rules under load: the same case of a rule asked plainly, under attack, behind filler and after other turns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calyrex/data/rule.h"
#include "calyrex/data/rule_rows.h"
#include "calyrex/text/message.h"

namespace calyrex::data {

/// A way of asking: an axis ("attack") and what exactly is done on it ("attack_header_defended").
struct AxisVariant {
  std::string_view axis;
  std::string_view name;
};

/// plain; attack_{override,header,shots} and each _defended, with a rule against such attempts in the system
/// message; filler_{2k,4k,7k}; turns_10.
const std::vector<AxisVariant>& axis_variants();

struct AxisRow {
  RuleRow row;  // id "upper_case-0/attack_shots"; system and user as they are asked
  AxisVariant variant;
  text::Messages earlier;                    // turns in which the assistant breaks the rule
  std::vector<std::string> first_questions;  // asked before, and answered by the model itself
};

struct AxisOptions {
  uint64_t seed = 0;
  Split split = Split::kTest;
  std::string axis;                // one axis alone; empty: all
  std::vector<std::string> rules;  // names; empty: every trained one
};

/// Cases of every trained rule that has wordings in the split, drawn from the split's questions, wordings and
/// attacks. Number n of a rule is the same case on all variants. In rounds over the rules, so that the first
/// rows hold some of each. A variant that a rule cannot have (plain answers that keep it) is left out.
std::vector<AxisRow> build_axis_rows(const AxisOptions& options);

/// A question and a plain answer that breaks the rule, other than `last_question`; none when plain answers
/// keep it.
std::optional<std::pair<std::string, std::string>> draw_breaking_turn(const Rule& rule,
                                                                      const Checker& checker,
                                                                      const std::string& last_question,
                                                                      Split split, RandomStream& random);

}  // namespace calyrex::data
