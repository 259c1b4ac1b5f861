// Checkers: does an answer keep a rule? Pure functions of rule, parameters and answer; they know nothing of
// whether the answer is right (content.h does).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"

namespace calyrex::data {

/// A rule with its parameters, as rows carry it: {"rule": "begins_with", "params": {"phrase": "Ahoy"}}.
struct Checker {
  std::string rule = "none";
  Json params = Json::object();

  bool operator==(const Checker&) const = default;
};

Json checker_to_json(const Checker& checker);
/// Throws kInvalidArgument with `source` for an unknown rule (naming the nearest) or a missing or ill-typed
/// parameter.
Checker parse_checker(const Json& json, std::string_view source);

/// Names of every rule a checker exists for, "none" included.
std::vector<std::string> checker_rules();

/// True when `answer` keeps the rule. An answer without any letter or digit keeps no rule but "none". Any
/// bytes are allowed. A checker that parse_checker would refuse is a bug of the caller (kInternal).
bool keeps_rule(const Checker& checker, std::string_view answer);

/// The part of an answer that is searched for content: all of it, but without the repeated question when the
/// rule is to repeat it, as the question itself may hold the answer.
std::string content_part(const Checker& checker, std::string_view answer);

}  // namespace calyrex::data
