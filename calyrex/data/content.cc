#include "calyrex/data/content.h"

#include <algorithm>

#include "calyrex/base/error.h"
#include "calyrex/data/unicode.h"

namespace calyrex::data {

ExpectedContent expect_any(std::vector<std::string> phrases) {
  return {.groups = {std::move(phrases)}, .at_least = 1};
}

ExpectedContent expect_all(const std::vector<std::string>& phrases) {
  ExpectedContent expected;
  for (const std::string& phrase : phrases) expected.groups.push_back({phrase});
  expected.at_least = static_cast<int64_t>(phrases.size());
  return expected;
}

Json content_to_json(const ExpectedContent& expected) {
  Json json = Json::object();
  json["groups"] = expected.groups;
  json["at_least"] = expected.at_least;
  return json;
}

ExpectedContent parse_content(const Json& json, std::string_view source) {
  const auto malformed = [&](std::string_view what) {
    fail(ErrorCode::kInvalidArgument,
         R"({}: "expected": {} (expected {{"groups": [["Paris"], ...], "at_least": 1}}))", source, what);
  };
  ExpectedContent expected;
  if (!json.is_object() || !json.contains("groups") || !json["groups"].is_array())
    malformed("no list \"groups\"");
  for (const Json& group : json["groups"]) {
    if (!group.is_array() || group.empty()) malformed("a group is no list of phrases");
    expected.groups.emplace_back();
    for (const Json& phrase : group) {
      if (!phrase.is_string() || trim(phrase.get<std::string>()).empty()) malformed("a phrase is no text");
      expected.groups.back().push_back(phrase.get<std::string>());
    }
  }
  const int64_t num_groups = static_cast<int64_t>(expected.groups.size());
  expected.at_least = num_groups;
  if (json.contains("at_least")) {
    if (!json["at_least"].is_number_integer()) malformed("\"at_least\" is no whole number");
    expected.at_least = json["at_least"].get<int64_t>();
  }
  if (expected.at_least < 1 || expected.at_least > num_groups)
    malformed("\"at_least\" is not within the groups");
  return expected;
}

bool content_present(const ExpectedContent& expected, std::string_view answer) {
  int64_t present = 0;
  for (const auto& group : expected.groups) {
    present += std::any_of(group.begin(), group.end(),
                           [&](const std::string& phrase) { return contains_phrase(answer, phrase); });
  }
  return present >= expected.at_least;
}

}  // namespace calyrex::data
