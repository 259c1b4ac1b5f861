// A rule a system message can state: its wordings, and how a question becomes a case of it with a reference
// answer that keeps it and a plain answer that breaks it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/base/random.h"
#include "calyrex/data/checker.h"
#include "calyrex/data/content.h"
#include "calyrex/data/question.h"

namespace calyrex::data {

/// Wordings by split; "{name}" stands for a slot of the case. A rule that is never trained has test wordings
/// alone.
struct Wordings {
  std::vector<std::string_view> train;
  std::vector<std::string_view> dev;
  std::vector<std::string_view> test;

  const std::vector<std::string_view>& of(Split split) const;
};

/// One use of a rule on one question.
struct RuleCase {
  Json params = Json::object();
  std::vector<std::pair<std::string, std::string>> slots;
  std::string question;  // id of what is asked
  std::string user;
  std::string answer;  // keeps the rule and holds the content
  std::string plain;   // what a model without the rule says; breaks it
  ExpectedContent expected;
};

enum class Overruling { kPossible, kNever };

struct Rule {
  std::string_view name;   // the checker's name
  std::string_view label;  // "Capital letters only"
  std::vector<QuestionKind> kinds;
  Wordings wordings;
  RuleCase (*draw)(const Question& question, Split split, RandomStream& random) = nullptr;
  /// A case where the rule is stated but does not bite (an on-topic question); null when there is none.
  RuleCase (*draw_idle)(const Question& question, Split split, RandomStream& random) = nullptr;
  Overruling overruling = Overruling::kPossible;

  bool trained() const { return !wordings.train.empty(); }
};

/// Every rule, trained ones first. The order is part of the format: tables follow it.
const std::vector<Rule>& all_rules();
/// nullptr when there is none of that name.
const Rule* find_rule(std::string_view name);

/// A wording with the case's slots filled in.
std::string state_rule(std::string_view wording, const RuleCase& rule_case);

// Parts of the catalogue, one file each.
std::vector<Rule> form_rules();
std::vector<Rule> word_rules();
std::vector<Rule> list_rules();
std::vector<Rule> guard_rules();
std::vector<Rule> untrained_rules();

/// What a trained rule asks for, as a request ("conclude with \"{phrase}\""); empty for a rule without such a
/// list.
std::vector<std::string_view> rule_requests(std::string_view rule);
/// Each request in each frame ("Whatever the user asks, ..."): further training wordings of the rule.
std::vector<std::string_view> composed_wordings(std::string_view rule);

/// A case that asks the question as it is; the caller sets answer, params and slots.
RuleCase plain_case(const Question& question);

template <typename Pool>
const auto& pick_one(const Pool& pool, RandomStream& random) {
  return pool[random.below(pool.size())];
}

}  // namespace calyrex::data
