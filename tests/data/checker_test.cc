#include "calyrex/data/checker.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/random.h"

namespace calyrex::data {
namespace {

using testing::HasSubstr;

constexpr const char* kCases = "tests/data/checker_cases.jsonl";

Checker make_checker(const std::string& rule, const std::string& params) {
  Json json = Json::object();
  json["rule"] = rule;
  json["params"] = Json::parse(params);
  return parse_checker(json, "test");
}

std::string parse_error(const std::string& text) {
  try {
    parse_checker(Json::parse(text), "rows.jsonl:7");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(Checker, JudgesEveryHandMadeCase) {
  int64_t cases = 0;
  for_each_json_line(kCases, [&](int64_t line, const Json& json) {
    const Checker checker = parse_checker(json, kCases);
    const std::string answer = json["answer"].get<std::string>();
    EXPECT_EQ(keeps_rule(checker, answer), json["keeps"].get<bool>())
        << kCases << ":" << line << " " << json.dump();
    ++cases;
  });
  EXPECT_GT(cases, 300);
}

TEST(Checker, EveryRuleHasCasesOfBothOutcomes) {
  constexpr int64_t kLeast = 6;
  std::map<std::string, int64_t> kept;
  std::map<std::string, int64_t> broken;
  for_each_json_line(kCases, [&](int64_t, const Json& json) {
    ++(json["keeps"].get<bool>() ? kept : broken)[json["rule"].get<std::string>()];
  });
  for (const std::string& rule : checker_rules()) {
    EXPECT_GE(kept[rule] + broken[rule], kLeast) << rule;
    EXPECT_GE(kept[rule], 1) << rule;
    if (rule != "none") {
      EXPECT_GE(broken[rule], 3) << rule;
    }
  }
}

TEST(Checker, NoRuleIsKeptByAnEmptyAnswerOrADot) {
  for_each_json_line(kCases, [&](int64_t, const Json& json) {
    const Checker checker = parse_checker(json, kCases);
    if (checker.rule == "none") return;
    for (const char* answer : {"", " ", ".", "...", "\n\n", "\"\"", "- ", "\u3002", "\xff\xfe", "\u200b"}) {
      EXPECT_FALSE(keeps_rule(checker, answer)) << checker.rule << " by \"" << answer << '"';
    }
  });
}

TEST(Checker, TakesAnyBytes) {
  RandomStream random(/*seed=*/5, "bytes");
  for_each_json_line(kCases, [&](int64_t, const Json& json) {
    const Checker checker = parse_checker(json, kCases);
    const std::string whole = json["answer"].get<std::string>();
    for (int round = 0; round < 20; ++round) {
      std::string answer = whole.substr(0, random.below(whole.size() + 1));
      for (uint64_t i = random.below(6); i > 0; --i) answer += static_cast<char>(random.below(256));
      keeps_rule(checker, answer);
      content_part(checker, answer);
    }
  });
}

TEST(Checker, BrokenUtf8IsNoLetterAndHidesNothing) {
  EXPECT_TRUE(keeps_rule(make_checker("upper_case", "{}"), "RED\xff"));
  EXPECT_FALSE(keeps_rule(make_checker("upper_case", "{}"), "R\xc3\xa9"));
  EXPECT_FALSE(keeps_rule(make_checker("upper_case", "{}"), "\xc3"));
  EXPECT_FALSE(
      keeps_rule(make_checker("keep_secret", R"({"code": "AMBER-42"})"), "AM\xffthe code: AMBER-42\xff"));
}

TEST(Checker, ContentIsSearchedAfterTheRepeatedQuestion) {
  const Checker repeat =
      make_checker("repeat_question", R"({"question": "The cup is red. What color is it?"})");
  EXPECT_EQ(content_part(repeat, "The cup is red. What color is it?\nIt is blue."), "\nIt is blue.");
  EXPECT_EQ(content_part(repeat, "The cup is red."), "");
  EXPECT_EQ(content_part(make_checker("upper_case", "{}"), "RED"), "RED");
}

TEST(Checker, RoundTripsThroughJson) {
  for_each_json_line(kCases, [&](int64_t, const Json& json) {
    const Checker checker = parse_checker(json, kCases);
    EXPECT_EQ(parse_checker(checker_to_json(checker), "copy"), checker);
  });
}

TEST(Checker, RefusesWhatItCannotJudge) {
  EXPECT_THAT(parse_error(R"({"rule": "upper_cas"})"), HasSubstr("rows.jsonl:7: unknown rule \"upper_cas\""));
  EXPECT_THAT(parse_error(R"({"rule": "upper_cas"})"), HasSubstr("did you mean \"upper_case\"?"));
  EXPECT_THAT(parse_error(R"({"rule": "tags"})"),
              HasSubstr("rows.jsonl:7: checker tags needs \"tag\": text"));
  EXPECT_THAT(parse_error(R"({"rule": "tags", "params": {"tag": " "}})"), HasSubstr("needs \"tag\""));
  EXPECT_THAT(parse_error(R"({"rule": "bullets", "params": {"count": 0}})"), HasSubstr("needs \"count\""));
  EXPECT_THAT(parse_error(R"({"rule": "bullets", "params": {"count": "3"}})"), HasSubstr("needs \"count\""));
  EXPECT_THAT(parse_error(R"({"rule": "only_topic", "params": {"off_topic": [1]}})"),
              HasSubstr("list of texts"));
  EXPECT_THAT(parse_error(R"({"rule": "two_rules", "params": {"rules": []}})"), HasSubstr("2 to 8 checkers"));
  EXPECT_THAT(parse_error(R"({"rule": "upper_case", "params": []})"), HasSubstr("no object"));
  EXPECT_THAT(parse_error(R"("upper_case")"), HasSubstr("a checker is"));
  const std::string nested = R"({"rule": "two_rules", "params": {"rules": [{"rule": "upper_case"},
      {"rule": "two_rules", "params": {"rules": [{"rule": "bold"}, {"rule": "bold"}]}}]}})";
  EXPECT_THAT(parse_error(nested), HasSubstr("single rules"));
}

}  // namespace
}  // namespace calyrex::data
