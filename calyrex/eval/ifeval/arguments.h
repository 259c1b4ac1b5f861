// Reading an instruction's arguments from a row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/eval/ifeval/instruction.h"

namespace calyrex::ifeval {

/// Arguments by name, each asked for once; null counts as absent. What is missing or ill-typed throws
/// kInvalidArgument naming the argument.
class Arguments {
 public:
  explicit Arguments(const Json& json);

  std::string text(std::string_view name);
  /// A list of strings that is not empty.
  std::vector<std::string> texts(std::string_view name);
  int64_t integer(std::string_view name, int64_t least = 0);
  /// "less than" or "at least" a number of the argument `limit`.
  std::function<Followed(int64_t)> comparison(std::string_view limit, std::string_view relation);
  /// Throws if there is an argument that nobody asked for.
  void finish() const;

 private:
  const Json& required(std::string_view name, std::string_view expected);

  const Json& json_;
  std::vector<std::string> asked_;
};

inline Followed followed(bool yes) { return yes ? Followed::kYes : Followed::kNo; }

}  // namespace calyrex::ifeval
