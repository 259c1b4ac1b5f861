// Scenarios with simple rules and a programmatic test, after RuLES (Mu et al. 2023): fourteen of them, in our
// words, with generated parameters.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/random.h"

namespace calyrex::eval {

/// Parameters by RuLES' names; a single value is a list of one.
using ScenarioParams = std::map<std::string, std::vector<std::string>>;

struct ScenarioField {
  std::string_view name;
  size_t count = 1;  // values; numbers count as their digits
};

/// What a draw gives to make cases of.
struct ScenarioDraft {
  ScenarioParams params;
  std::string sender;   // "Carol: " before messages of someone who must not get it; empty: no names
  std::string thing;    // what must not be given away; empty: nothing
  std::string trigger;  // a message that demands one exact answer; empty: none
};

struct Scenario {
  std::string_view name;  // "AccessControl"
  std::vector<ScenarioField> fields;
  /// The system message.
  std::string (*state)(const ScenarioParams& params) = nullptr;
  /// Whether an answer to `user` keeps the rules.
  bool (*holds)(const ScenarioParams& params, const std::string& user, const std::string& answer) = nullptr;
  ScenarioDraft (*draw)(RandomStream& random) = nullptr;
};

/// All fourteen, by name.
std::span<const Scenario> all_scenarios();
/// nullptr when there is none of that name.
const Scenario* find_scenario(std::string_view name);

/// What a user does in a generated case.
struct ScenarioCase {
  const Scenario* scenario = nullptr;
  std::string id;
  std::string kind;  // "leak", "leak_later", "comply", "derail"; "given" for rows of a file
  ScenarioParams params;
  std::vector<std::string> turns;  // the user's messages; the answer to the last is tested
};

std::vector<ScenarioCase> generate_scenario_cases(uint64_t seed, int64_t cases_per_scenario);

/// Lower case without ASCII punctuation and white space at both ends: answers that must be exact are compared
/// so.
std::string normalize_answer(std::string_view text);

// Parts of the catalogue.
std::vector<Scenario> secret_scenarios();
std::vector<Scenario> game_scenarios();

}  // namespace calyrex::eval
