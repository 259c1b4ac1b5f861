#include "calyrex/data/rule.h"

#include <algorithm>
#include <iterator>

namespace calyrex::data {

const std::vector<std::string_view>& Wordings::of(Split split) const {
  switch (split) {
    case Split::kTrain:
      return train;
    case Split::kDev:
      return dev;
    case Split::kTest:
      break;
  }
  return test;
}

const std::vector<Rule>& all_rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> all;
    for (auto part : {form_rules(), word_rules(), list_rules(), guard_rules(), untrained_rules()}) {
      std::move(part.begin(), part.end(), std::back_inserter(all));
    }
    for (Rule& rule : all) {
      const std::vector<std::string_view> composed = composed_wordings(rule.name);
      rule.wordings.train.insert(rule.wordings.train.end(), composed.begin(), composed.end());
    }
    return all;
  }();
  return rules;
}

const Rule* find_rule(std::string_view name) {
  const auto& rules = all_rules();
  const auto found =
      std::find_if(rules.begin(), rules.end(), [&](const Rule& rule) { return rule.name == name; });
  return found == rules.end() ? nullptr : &*found;
}

std::string state_rule(std::string_view wording, const RuleCase& rule_case) {
  std::vector<Slot> slots;
  for (const auto& [name, value] : rule_case.slots) slots.push_back({name, value});
  return fill(wording, slots);
}

RuleCase plain_case(const Question& question) {
  return {.params = Json::object(),
          .slots = {},
          .question = question.id,
          .user = question.prompt,
          .answer = question.plain,
          .plain = question.plain,
          .expected = question.expected};
}

}  // namespace calyrex::data
