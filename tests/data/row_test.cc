#include "calyrex/data/row.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "tests/data/folder_test.h"

namespace calyrex::data {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

ChatRow parse(const std::string& text) { return parse_row(Json::parse(text), "a.jsonl:3"); }

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

std::string roles(const ChatRow& row) {
  std::string result;
  for (const text::Message& message : row.messages) result += message.role + ":" + message.content + "|";
  return result;
}

class RowFiles : public FolderTest {
 protected:
  std::string read_error(const std::filesystem::path& path) {
    try {
      read_rows(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST(Row, ReadsMessages) {
  const ChatRow row = parse(R"({"id": "x", "messages": [{"role": "user", "content": "Hi"},
      {"role": "assistant", "content": "Yo"}], "tools": [{}], "weight": 2})");
  EXPECT_EQ(row.id, "x");
  EXPECT_EQ(roles(row), "user:Hi|assistant:Yo|");
  EXPECT_EQ(row.tools, Json::parse("[{}]"));
  EXPECT_EQ(row.source, "a.jsonl:3");
  EXPECT_EQ(row.fields, Json::parse(R"({"weight": 2})"));
}

TEST(Row, ReadsShareGpt) {
  const ChatRow row = parse(R"({"id": 7, "system": "S", "conversations": [{"from": "human", "value": "Hi"},
      {"from": "gpt", "value": "Yo"}], "source": "z"})");
  EXPECT_EQ(row.id, "7");
  EXPECT_EQ(roles(row), "system:S|user:Hi|assistant:Yo|");
  EXPECT_EQ(row.fields, Json::parse(R"({"source": "z"})"));
}

TEST(Row, ReadsAlpaca) {
  EXPECT_EQ(roles(parse(R"({"instruction": "Add", "input": "", "output": "3"})")), "user:Add|assistant:3|");
  EXPECT_EQ(roles(parse(R"({"instruction": "Add", "input": "1 2", "output": "3", "system": "S",
                           "history": [["q", "a"]]})")),
            "system:S|user:q|assistant:a|user:Add\n\n1 2|assistant:3|");
  EXPECT_EQ(parse(R"({"instruction": "Add", "output": "3"})").id, "a.jsonl:3");
}

TEST(Row, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(error_of("[]"), StartsWith("a.jsonl:3: no object (a row is {\"messages\""));
  EXPECT_THAT(error_of("{}"), HasSubstr("no \"messages\", \"conversations\" or \"instruction\""));
  EXPECT_THAT(error_of(R"({"messages": "x"})"), StartsWith("a.jsonl:3"));
  EXPECT_THAT(error_of(R"({"messages": []})"), StartsWith("a.jsonl:3"));
  EXPECT_THAT(error_of(R"({"conversations": []})"), HasSubstr("no list of turns"));
  EXPECT_THAT(
      error_of(R"({"conversations": [{"from": "human", "value": "a"}, {"from": "alien", "value": "b"}]})"),
      StartsWith("a.jsonl:3: conversations[1]: unknown \"from\": \"alien\""));
  EXPECT_THAT(error_of(R"({"conversations": [{"from": "human"}]})"), HasSubstr("\"value\" is no text"));
  EXPECT_THAT(error_of(R"({"conversations": [1]})"), HasSubstr("conversations[0]: no object"));
  EXPECT_THAT(error_of(R"({"instruction": "a"})"), HasSubstr("\"output\" is no text"));
  EXPECT_THAT(error_of(R"({"instruction": "a", "output": 3})"), HasSubstr("\"output\" is no text"));
  EXPECT_THAT(error_of(R"({"instruction": "a", "output": "b", "history": [["q"]]})"),
              HasSubstr("\"history\""));
  for (const char* tools : {"3", "{}", "[1]", "\"f\""}) {
    EXPECT_THAT(error_of(fmt::format(R"({{"instruction": "a", "output": "b", "tools": {}}})", tools)),
                StartsWith("a.jsonl:3: tools must be a list of objects"));
  }
  EXPECT_THAT(error_of(R"({"id": [], "instruction": "a", "output": "b"})"), HasSubstr("\"id\" is neither"));
}

TEST_F(RowFiles, NamesRowsByFileAndLine) {
  const auto path = write("a.jsonl", "\n{\"instruction\": \"a\", \"output\": \"b\"}\n");
  const auto rows = read_rows(path);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].id, "a.jsonl:2");
}

TEST_F(RowFiles, ReadsAJsonList) {
  const auto path = write("a.json", R"([{"instruction": "a", "output": "b"}, {"id": "k", "messages":
      [{"role": "user", "content": "Hi"}]}])");
  const auto rows = read_rows(path);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].id, "a.json:1");
  EXPECT_EQ(rows[1].id, "k");
}

TEST_F(RowFiles, ErrorsNameFileAndLine) {
  const auto path = write("b.jsonl", "{\"instruction\": \"a\", \"output\": \"b\"}\n{\"output\": \"b\"}\n");
  EXPECT_THAT(read_error(path), StartsWith(path.string() + ":2: no \"messages\""));
  const auto broken = write("c.jsonl", "{\"instruction\": \"a\"\n");
  EXPECT_THAT(read_error(broken), HasSubstr("c.jsonl:1"));
  EXPECT_THAT(read_error(write("d.json", "{}")), HasSubstr("d.json: expected a list of rows"));
  EXPECT_THAT(read_error(folder_ / "none.jsonl"), HasSubstr("none.jsonl"));
}

TEST(Row, WritesWhatItReads) {
  const ChatRow row = parse(R"({"id": "x", "messages": [{"role": "system", "content": "S"},
      {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
      {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}], "rule": "r"})");
  for (const RowFormat format : {RowFormat::kMessages, RowFormat::kShareGpt, RowFormat::kAlpaca}) {
    const ChatRow copy = parse_row(row_to_json(row, format), "copy");
    EXPECT_EQ(copy.id, row.id);
    EXPECT_EQ(copy.messages, row.messages) << to_string(format);
    EXPECT_EQ(copy.fields, row.fields);
  }
}

TEST(Row, AlpacaRefusesOtherChats) {
  const ChatRow row = parse(R"({"id": "x", "messages": [{"role": "user", "content": "a"}]})");
  EXPECT_THROW(row_to_json(row, RowFormat::kAlpaca), Error);
  const ChatRow swapped =
      parse(R"({"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "a"}]})");
  EXPECT_THROW(row_to_json(swapped, RowFormat::kAlpaca), Error);
}

}  // namespace
}  // namespace calyrex::data
