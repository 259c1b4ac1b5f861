// What an answer must say, whatever its form: the second half of the joint measure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"

namespace calyrex::data {

/// At least `at_least` of the groups must be present; a group is present when one of its phrases stands in
/// the answer as whole words (contains_phrase: case and quote style do not count).
struct ExpectedContent {
  std::vector<std::vector<std::string>> groups;
  int64_t at_least = 0;

  bool operator==(const ExpectedContent&) const = default;
};

/// One group of synonyms.
ExpectedContent expect_any(std::vector<std::string> phrases);
/// Every phrase.
ExpectedContent expect_all(const std::vector<std::string>& phrases);

/// {"groups": [["Paris"], ...], "at_least": 1}
Json content_to_json(const ExpectedContent& expected);
/// Throws kInvalidArgument with `source` for another shape, an empty phrase, or at_least outside 1..groups.
ExpectedContent parse_content(const Json& json, std::string_view source);

bool content_present(const ExpectedContent& expected, std::string_view answer);

}  // namespace calyrex::data
