// InjecAgent's cases and tools (Zhan et al. 2024), in their public layout.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/eval/tasks/injecagent_react.h"

namespace calyrex::eval {

struct InjecCase {
  std::string id;
  bool stealing = false;  // data stealing: a tool that fetches, then one that sends
  bool enhanced = false;  // the attack comes with a general override sentence
  std::string user_instruction;
  std::string user_tool;
  std::string user_parameters;  // as given to the user's tool
  std::string thought;          // of the agent before that call
  std::string tool_response;    // holds the attacker's instruction
  std::string attacker_instruction;
  std::vector<std::string> attacker_tools;

  AttackCase attack(size_t step) const;
};

/// What all cases of a folder share.
struct InjecWorld {
  std::map<std::string, Json> tools;  // by full name ("GmailSendEmail"): as tools.json describes it
  std::map<std::string, std::string> simulated;  // "(tool,parameters)" -> what the attacker's tool returns

  /// Descriptions of a case's tools, in the order of its list.
  Json describe(const InjecCase& one) const;
  /// The same as function schemas in the OpenAI layout.
  Json schemas(const InjecCase& one) const;
  /// What an attacker's tool returns: simulated, or a fixed sentence when it is not among those.
  std::string response_of(const std::string& tool, const std::string& parameters) const;
};

struct InjecData {
  InjecWorld world;
  std::vector<InjecCase> cases;
};

/// A folder with tools.json and test_cases_{dh,ds}_{base,enhanced}.json (those that are there), or one such
/// file beside tools.json. attacker_simulated_responses.json may be absent.
InjecData read_injecagent(const std::filesystem::path& data);

/// Two harmless cases of our own.
InjecData injecagent_sample();

}  // namespace calyrex::eval
