#include "calyrex/eval/ifeval/arguments.h"

#include <algorithm>
#include <cmath>

#include "calyrex/base/error.h"

namespace calyrex::ifeval {
namespace {

[[noreturn]] void refuse(std::string_view name, std::string_view expected, const Json& value) {
  fail(ErrorCode::kInvalidArgument, "{}: expected {}, got {}", name, expected, to_json_line(value));
}

}  // namespace

Arguments::Arguments(const Json& json) : json_(json) {
  if (!json.is_object()) fail(ErrorCode::kInvalidArgument, "expected an object of arguments");
}

const Json& Arguments::required(std::string_view name, std::string_view expected) {
  asked_.emplace_back(name);
  const auto found = json_.find(name);
  if (found == json_.end() || found->is_null()) {
    fail(ErrorCode::kInvalidArgument, "{} is missing: expected {}", name, expected);
  }
  return *found;
}

std::string Arguments::text(std::string_view name) {
  const Json& value = required(name, "a string");
  if (!value.is_string()) refuse(name, "a string", value);
  return value.get<std::string>();
}

std::vector<std::string> Arguments::texts(std::string_view name) {
  constexpr std::string_view kExpected = "a list of strings that is not empty";
  const Json& value = required(name, kExpected);
  const bool good =
      value.is_array() && !value.empty() &&
      std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_string(); });
  if (!good) refuse(name, kExpected, value);
  return value.get<std::vector<std::string>>();
}

int64_t Arguments::integer(std::string_view name, int64_t least) {
  constexpr double kMost = 1e15;
  const std::string expected = fmt::format("a whole number of at least {}", least);
  const Json& value = required(name, expected);
  const double number = value.is_number() ? value.get<double>() : 0.5;
  if (number != std::floor(number) || number < static_cast<double>(least) || number > kMost) {
    refuse(name, expected, value);
  }
  return static_cast<int64_t>(number);
}

std::function<Followed(int64_t)> Arguments::comparison(std::string_view limit, std::string_view relation) {
  const int64_t bound = integer(limit);
  const std::string name = text(relation);
  if (name == "less than") return [bound](int64_t count) { return followed(count < bound); };
  if (name == "at least") return [bound](int64_t count) { return followed(count >= bound); };
  refuse(relation, "\"less than\" or \"at least\"", name);
}

void Arguments::finish() const {
  for (const auto& [name, value] : json_.items()) {
    if (!value.is_null() && std::find(asked_.begin(), asked_.end(), name) == asked_.end()) {
      fail(ErrorCode::kInvalidArgument, "{}: no such argument", name);
    }
  }
}

}  // namespace calyrex::ifeval
