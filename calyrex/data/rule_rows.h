// The rule-following data set: chats whose system message states checkable rules, with their checkers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/data/checker.h"
#include "calyrex/data/content.h"
#include "calyrex/data/question.h"
#include "calyrex/data/row.h"

namespace calyrex::data {

/// What a row is there for.
enum class RowSort {
  kRule,      // the system message states a rule
  kOverrule,  // so it does, and the user tries to overrule it; the answer keeps the rule
  kIdle,      // the rule is stated but the question gives it nothing to do
  kOrdinary,  // an ordinary system message without a rule
  kNoSystem,  // no system message
};
std::string_view sort_name(RowSort sort);  // "rule", "overrule", "idle", "ordinary", "no_system"

/// One generated row. `answer` is the reference; `plain` is what a model without the rule says, and breaks
/// the rule.
struct RuleRow {
  std::string id = {};
  Split split = Split::kTrain;
  RowSort sort = RowSort::kRule;
  std::string rule = "none";
  std::string wording = {};   // "begins_with/test/2"
  std::string question = {};  // id of the question
  std::string system = {};    // empty: no system message
  std::string user = {};
  std::string answer = {};
  std::string plain = {};
  Checker checker = {};
  ExpectedContent expected = {};
};

struct RuleDataOptions {
  uint64_t seed = 0;
  int64_t train_rows = 4000;
  int64_t dev_rows_per_rule = 3;
  int64_t test_rows_per_rule = 10;
  int64_t test_overrule_rows_per_rule = 2;
  std::vector<std::string> rules;  // names; empty = all
};

struct RuleData {
  std::vector<RuleRow> train;
  std::vector<RuleRow> dev;
  std::vector<RuleRow> test;
};

/// Deterministic for equal options, on every machine. Throws kInvalidArgument for an unknown rule (naming the
/// nearest), no trained rule among them, or counts out of range.
RuleData build_rule_data(const RuleDataOptions& options);

/// The chat with its fields: "split", "sort", "rule", "wording", "question", "checker", "expected",
/// "plain_answer".
ChatRow to_chat_row(const RuleRow& row);
/// Back from a row read from a file; throws kInvalidArgument naming the row when a field is missing or
/// malformed.
RuleRow from_chat_row(const ChatRow& row);

}  // namespace calyrex::data
