// Whether calls are the right ones: by an allowed list of values (BFCL) or by one reference (Glaive).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/eval/scorers/calls.h"

namespace calyrex::eval {

/// A function as BFCL describes it: "type" is dict, array, tuple, string, integer, float, boolean or any.
struct FunctionSchema {
  std::string name;
  Json properties = Json::object();  // {"base": {"type": "integer", ...}, ...}
  std::vector<std::string> required = {};
};

/// The allowed values of each parameter of one expected call: {"base": [10], "unit": ["units", ""]}; "" means
/// that the parameter may be absent. Within an allowed object every value is such a list again.
struct ExpectedCall {
  std::string name;
  Json allowed = Json::object();
};

/// Checks shapes (kInvalidArgument with `source`), so that matching can rely on them.
FunctionSchema parse_function_schema(const Json& json, std::string_view source);
ExpectedCall parse_expected_call(const Json& json, std::string_view source);

/// Why a call is wrong, in a few words; empty when it is right. The rule of the Berkeley Function-Calling
/// Leaderboard: equal names, every required parameter, none that is unknown, the declared type (or the type
/// of the first allowed value, which stands for a variable), a value from the allowed list. Strings are
/// compared in lower case without spaces and , . / - _ * ^, with double for single quotes. A whole number may
/// stand for a float.
std::string call_fault(const FunctionCall& call, const FunctionSchema& schema, const ExpectedCall& expected);

/// Likewise for all calls of an answer, which are matched in any order; `schemas` holds every function.
std::string calls_fault(const std::vector<FunctionCall>& calls, const std::vector<FunctionSchema>& schemas,
                        const std::vector<ExpectedCall>& expected);

/// How far a call agrees with one reference call (Glaive): equal name, and equal arguments as JSON.
struct CallAgreement {
  bool parsed = false;  // exactly one call was read
  bool name = false;
  bool arguments = false;
};
CallAgreement compare_calls(const std::vector<FunctionCall>& calls, const FunctionCall& reference);

}  // namespace calyrex::eval
