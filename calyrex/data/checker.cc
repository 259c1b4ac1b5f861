#include "calyrex/data/checker.h"

#include <algorithm>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/fields.h"
#include "calyrex/data/checker_table.h"
#include "calyrex/data/unicode.h"

namespace calyrex::data {
namespace {

const CheckerEntry* find_entry(std::string_view rule) {
  for (const auto table : {form_checkers(), word_checkers()}) {
    for (const CheckerEntry& entry : table) {
      if (entry.rule == rule) return &entry;
    }
  }
  return nullptr;
}

void check_parameter(const CheckerParameter& parameter, const Json& params, std::string_view rule,
                     std::string_view source) {
  const auto found = params.find(std::string(parameter.name));
  const auto malformed = [&](std::string_view kind) {
    fail(ErrorCode::kInvalidArgument, "{}: checker {} needs \"{}\": {}", source, rule, parameter.name, kind);
  };
  switch (parameter.kind) {
    case ParameterKind::kText:
      if (found == params.end() || !found->is_string() || trim(found->get<std::string>()).empty())
        malformed("text");
      return;
    case ParameterKind::kCount:
      if (found == params.end() || !found->is_number_integer() || found->get<int64_t>() < 1 ||
          found->get<int64_t>() > 1000) {
        malformed("a whole number from 1 to 1000");
      }
      return;
    case ParameterKind::kTexts:
      if (found == params.end() || !found->is_array() || found->empty()) malformed("a list of texts");
      for (const Json& item : *found) {
        if (!item.is_string() || trim(item.get<std::string>()).empty()) malformed("a list of texts");
      }
      return;
    case ParameterKind::kCheckers:
      if (found == params.end() || !found->is_array() || found->size() < 2 || found->size() > 8) {
        malformed("a list of 2 to 8 checkers");
      }
      for (const Json& item : *found) {
        if (parse_checker(item, source).rule == rule) malformed("checkers that are single rules");
      }
      return;
  }
}

}  // namespace

void fail_unknown_rule(std::string_view prefix, std::string_view name,
                       const std::vector<std::string>& known) {
  const std::string nearest = nearest_word(name, known);
  const std::string remedy = nearest.empty() ? fmt::format("known are {}", fmt::join(known, ", "))
                                             : fmt::format("did you mean \"{}\"?", nearest);
  fail(ErrorCode::kInvalidArgument, "{}unknown rule \"{}\"; {}", prefix, name, remedy);
}

std::vector<std::string> checker_rules() {
  std::vector<std::string> names;
  for (const auto table : {form_checkers(), word_checkers()}) {
    for (const CheckerEntry& entry : table) names.emplace_back(entry.rule);
  }
  return names;
}

Json checker_to_json(const Checker& checker) {
  Json json = Json::object();
  json["rule"] = checker.rule;
  json["params"] = checker.params;
  return json;
}

Checker parse_checker(const Json& json, std::string_view source) {
  if (!json.is_object() || !json.contains("rule") || !json["rule"].is_string()) {
    fail(ErrorCode::kInvalidArgument, R"({}: a checker is {{"rule": NAME, "params": {{...}}}})", source);
  }
  Checker checker{.rule = json["rule"].get<std::string>(), .params = Json::object()};
  if (json.contains("params")) checker.params = json["params"];
  const CheckerEntry* entry = find_entry(checker.rule);
  if (entry == nullptr) {
    fail_unknown_rule(fmt::format("{}: ", source), checker.rule, checker_rules());
  }
  if (!checker.params.is_object()) {
    fail(ErrorCode::kInvalidArgument, "{}: checker {}: \"params\" is no object", source, checker.rule);
  }
  for (const CheckerParameter& parameter : entry->parameters) {
    check_parameter(parameter, checker.params, checker.rule, source);
  }
  return checker;
}

bool keeps_rule(const Checker& checker, std::string_view answer) {
  const CheckerEntry* entry = find_entry(checker.rule);
  CALYREX_CHECK(entry != nullptr, "no checker for rule {}", checker.rule);
  if (checker.rule != "none" && !has_letter_or_digit(answer)) return false;
  return entry->keeps(checker.params, trim(answer));
}

std::string content_part(const Checker& checker, std::string_view answer) {
  if (checker.rule != "repeat_question") return std::string(answer);
  return after_question(checker.params["question"].get<std::string>(), answer).value_or(std::string());
}

}  // namespace calyrex::data
