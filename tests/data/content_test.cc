#include "calyrex/data/content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"

namespace calyrex::data {
namespace {

using testing::HasSubstr;

std::string parse_error(const std::string& text) {
  try {
    parse_content(Json::parse(text), "row 3");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(Content, AnyPhraseOfAGroupIsEnough) {
  const ExpectedContent number = expect_any({"12", "twelve"});
  EXPECT_TRUE(content_present(number, "There are TWELVE cups."));
  EXPECT_TRUE(content_present(number, "{\"answer\": \"12\"}"));
  EXPECT_FALSE(content_present(number, "There are 120 cups."));
  EXPECT_FALSE(content_present(number, ""));
}

TEST(Content, EveryGroupOrACountOfThem) {
  ExpectedContent items = expect_all({"tea", "milk", "salt"});
  EXPECT_TRUE(content_present(items, "salt / milk / tea"));
  EXPECT_FALSE(content_present(items, "tea, milk"));
  items.at_least = 2;
  EXPECT_TRUE(content_present(items, "tea, milk"));
  EXPECT_FALSE(content_present(items, "tea, tea"));
}

TEST(Content, RoundTripsThroughJson) {
  const ExpectedContent content{.groups = {{"12", "twelve"}, {"é"}}, .at_least = 1};
  EXPECT_EQ(parse_content(content_to_json(content), "row"), content);
}

TEST(Content, AllGroupsAreNeededByDefault) {
  EXPECT_EQ(parse_content(Json::parse(R"({"groups": [["a"], ["b"]]})"), "row").at_least, 2);
}

TEST(Content, RefusesOtherShapes) {
  EXPECT_THAT(parse_error("null"), HasSubstr("row 3: \"expected\": no list \"groups\""));
  EXPECT_THAT(parse_error(R"({"groups": [[]]})"), HasSubstr("no list of phrases"));
  EXPECT_THAT(parse_error(R"({"groups": [["a", 1]]})"), HasSubstr("no text"));
  EXPECT_THAT(parse_error(R"({"groups": [[" "]]})"), HasSubstr("no text"));
  EXPECT_THAT(parse_error(R"({"groups": []})"), HasSubstr("not within the groups"));
  EXPECT_THAT(parse_error(R"({"groups": [["a"]], "at_least": 2})"), HasSubstr("not within the groups"));
  EXPECT_THAT(parse_error(R"({"groups": [["a"]], "at_least": "1"})"), HasSubstr("no whole number"));
}

}  // namespace
}  // namespace calyrex::data
