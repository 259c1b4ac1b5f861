#include "calyrex/text/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"

namespace calyrex::text {
namespace {

TEST(Messages, ReadsTheOpenAiFormat) {
  const Json json = Json::parse(R"([
    {"role": "system", "content": "rules"},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "Ann"},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]},
    {"role": "tool", "content": "4", "tool_call_id": "1"},
    {"role": "developer", "content": ""}])");
  const Messages messages = parse_messages(json, "chat.json");
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[0], (Message{.role = "system", .content = "rules"}));
  EXPECT_EQ(messages[1].content, "ab");
  EXPECT_EQ(messages[1].extra, (Json{{"name", "Ann"}}));
  EXPECT_FALSE(messages[2].has_content);
  EXPECT_EQ(messages[2].extra["tool_calls"][0]["id"], "1");
  EXPECT_EQ(messages[4].content, "");
  EXPECT_EQ(parse_messages(messages_to_json(messages), "again"), messages);
}

TEST(Messages, SaysWhatIsWrongAndWhere) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"role": "user"})", "chat.json: messages must be a list"},
      {R"([])", "at least one message"},
      {R"(["hi"])", "chat.json: messages[0]: not an object"},
      {R"([{"role": "user", "content": "a"}, {"content": "b"}])", "messages[1]: role is missing"},
      {R"([{"role": "robot", "content": "b"}])", "messages[0]: role \"robot\" is none of"},
      {R"([{"role": "user"}])", "messages[0]: content is missing"},
      {R"([{"role": "assistant", "content": null}])", "messages[0]: content is missing"},
      {R"([{"role": "assistant", "content": null, "tool_calls": []}])", "messages[0]: content is missing"},
      {R"([{"role": "user", "content": 5}])", "neither a string nor a list"},
      {R"([{"role": "user", "content": [{"type": "image_url"}]}])", "a content part is not"},
      {R"([{"role": "user", "content": [{"type": 5, "text": "a"}]}])", "a content part is not"},
  };
  for (const auto& [json, expected] : cases) {
    try {
      parse_messages(Json::parse(json), "chat.json");
      ADD_FAILURE() << json;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.what(), ::testing::HasSubstr(expected));
    }
  }
}

TEST(Tools, AreAListOfObjectsOrNothing) {
  EXPECT_TRUE(parse_tools(Json(nullptr), "a").is_null());
  EXPECT_EQ(parse_tools(Json::parse(R"([{"type": "function"}])"), "a").size(), 1u);
  for (const char* json : {"3", "{}", "[1]", "\"f\"", "[null]"}) {
    EXPECT_THROW(parse_tools(Json::parse(json), "a"), Error) << json;
  }
}

}  // namespace
}  // namespace calyrex::text
