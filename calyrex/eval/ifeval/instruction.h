// The 25 verifiable instructions of IFEval (Zhou et al. 2023), judged as the published Python checkers judge.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/eval/ifeval/answer.h"

namespace calyrex::ifeval {

/// kUndecided: a regular expression from the data backtracks without end.
enum class Followed { kNo, kYes, kUndecided };

/// One instruction with its arguments. Immutable; copies share nothing that changes.
class Instruction {
 public:
  /// `arguments` is the row's object; null values count as absent. Throws kInvalidArgument with id and
  /// argument for an unknown id, a missing, ill-typed or unknown argument, a value outside its range (where
  /// the published code draws a random one), or an invalid regular expression.
  Instruction(std::string_view id, const Json& arguments);

  const std::string& id() const { return id_; }
  /// The part of the id before the colon.
  std::string family() const { return id_.substr(0, id_.find(':')); }
  /// Loads the language resources that check() will need; kNotFound says what to run when they are missing.
  void prepare() const;
  /// Verdict over a text that is not blank; throws what prepare() throws.
  Followed check(const Answer& answer) const { return check_(answer); }

 private:
  std::string id_;
  std::function<Followed(const Answer&)> check_;
};

/// All ids, sorted.
std::vector<std::string> instruction_ids();

}  // namespace calyrex::ifeval
