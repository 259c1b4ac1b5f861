#include "calyrex/base/json.h"

#include <gtest/gtest.h>

#include "calyrex/base/error.h"

namespace calyrex {
namespace {

std::string message_of(std::string_view text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, "file.json", limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    return error.what();
  }
  return "";
}

TEST(Json, KeepsTheOrderOfKeys) {
  EXPECT_EQ(to_json_line(parse_json(R"({"b": 1, "a": [1.5, "é"]})", "t")), R"({"b":1,"a":[1.5,"é"]})");
}

TEST(Json, RefusesWhatIsNotOneStrictDocument) {
  EXPECT_NE(message_of(R"({"a": 1, "a": 2})").find("\"a\" appears twice"), std::string::npos);
  EXPECT_NE(message_of("{\"a\": 1,\n}").find("file.json"), std::string::npos);
  EXPECT_FALSE(message_of("1 2").empty());
  EXPECT_FALSE(message_of("").empty());
  EXPECT_FALSE(message_of("\"\xff\"").empty());
  EXPECT_FALSE(message_of("NaN").empty());
}

TEST(Json, TheSameKeyInDifferentObjectsIsFine) {
  EXPECT_EQ(message_of(R"([{"a": {"a": 1}}, {"a": 2}])"), "");
}

TEST(Json, DepthAndSizeAreBounded) {
  EXPECT_NE(message_of(std::string(1000, '[') + std::string(1000, ']')).find("nested deeper"),
            std::string::npos);
  EXPECT_NE(message_of(R"("long text")", {.max_bytes = 4}).find("at most 4"), std::string::npos);
}

TEST(Json, MessagesAreShortAndPrintable) {
  const std::string message = message_of("[\"" + std::string(100000, 'a') + "\xff\x1b");
  EXPECT_LT(message.size(), 400u);
  EXPECT_NE(message.find("line 1, column 100003"), std::string::npos) << message;
  for (const char c : message) EXPECT_TRUE(c >= ' ' && c <= '~') << message;
}

TEST(Json, InvalidUtf8IsReplacedOnWriting) { EXPECT_EQ(to_json_line(Json("a\xff")), "\"a\xEF\xBF\xBD\""); }

}  // namespace
}  // namespace calyrex
