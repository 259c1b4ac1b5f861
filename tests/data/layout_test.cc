#include "calyrex/data/layout.h"

#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"

namespace calyrex::data {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::vector<LaidOutRow> parse(const std::string& text, const LayoutOptions& options = {}) {
  return parse_laid_out(Json::parse(text), "a.jsonl:3", options);
}

/// role:content|role:content| of each row, rows apart by a line.
std::string chats(const std::vector<LaidOutRow>& rows) {
  std::string result;
  for (const LaidOutRow& row : rows) {
    if (!result.empty()) result += "\n";
    for (const text::Message& message : row.row.messages) {
      result += message.role + ":" + (message.has_content ? message.content : message.extra.dump()) + "|";
    }
  }
  return result;
}

std::string error_of(const std::string& text, const LayoutOptions& options = {}) {
  try {
    parse(text, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(Layout, ReadsPairsOfInstructionAndAnswer) {
  EXPECT_EQ(chats(parse(R"({"instruction": "Add", "context": "1 2", "response": "3", "category": "qa"})")),
            "user:Add\n\n1 2|assistant:3|");
  EXPECT_EQ(chats(parse(R"({"instruction": "Add", "context": "", "response": "3"})")),
            "user:Add|assistant:3|");
  EXPECT_EQ(chats(parse(R"({"instruction": "Add", "input": "", "response": "3"})")), "user:Add|assistant:3|");
  EXPECT_EQ(chats(parse(R"({"instruction": "Add", "output": "4", "chosen": "3", "rejected": "4"})")),
            "user:Add|assistant:3|");
  EXPECT_EQ(chats(parse(R"({"prompt": " Add 1 2\n", "completion": "3<|endoftext|>"})")),
            "user:Add 1 2|assistant:3|");
  EXPECT_EQ(chats(parse(R"({"instruction": "Add", "instances": [{"input": "1 2", "output": "3"},
                            {"input": "", "output": "none"}]})")),
            "user:Add\n\n1 2|assistant:3|\nuser:Add|assistant:none|");
}

TEST(Layout, KeepsInstructionAndInputApart) {
  for (const char* text : {R"({"instruction": "Add", "context": "1 2", "response": "3"})",
                           R"({"instruction": "Add", "input": "1 2", "output": "3"})"}) {
    const LaidOutRow row = parse(text).front();
    EXPECT_EQ(row.instruction, "Add");
    EXPECT_EQ(row.input, "1 2");
  }
  EXPECT_EQ(parse(R"({"instruction": "Add", "input": "", "output": "3"})").front().instruction, "");
  EXPECT_EQ(
      parse(R"({"system": "S", "instruction": "Add", "input": "1", "output": "3"})").front().instruction, "");
}

TEST(Layout, Gsm8kLosesTheCalculatorMarks) {
  EXPECT_EQ(
      chats(parse(R"({"question": "Q", "answer": "48/2 = <<48/2=24>>24.\nIn all <<1+1=2>>2\n#### 2"})")),
      "user:Q|assistant:48/2 = 24.\nIn all 2\n#### 2|");
  EXPECT_EQ(chats(parse(R"({"question": "Q", "answer": "a << b"})")), "user:Q|assistant:a << b|");
}

TEST(Layout, InductionDrawsAWordingBySeedAndPlace) {
  LayoutOptions options;
  options.instructions = {{"sum", {"Add the numbers.", "Give the sum."}}};
  const std::string row = R"({"task": "sum", "input": "1 2", "output": "3"})";
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    options.seed = seed;
    EXPECT_EQ(chats(parse(row, options)), chats(parse(row, options)));
    seen.insert(parse(row, options).front().instruction);
  }
  EXPECT_EQ(seen, (std::set<std::string>{"Add the numbers.", "Give the sum."}));
  EXPECT_TRUE(parse(R"({"task": "cause", "cause": "a", "effect": "b"})", options).empty());
  EXPECT_THAT(error_of(R"({"task": "diff", "input": "1", "output": "2"})", options),
              StartsWith("a.jsonl:3: no wording of the task \"diff\""));
}

TEST(Layout, OasstFollowsTheBestReplies) {
  const std::string tree =
      R"({"message_tree_id": "t", "prompt": {"text": "Q", "role": "prompter", "lang": "en",
    "replies": [
      {"text": "worse", "role": "assistant", "rank": 1},
      {"text": "bad", "role": "assistant", "rank": 0, "deleted": true},
      {"text": "spam", "role": "assistant", "rank": 0, "review_result": false},
      {"text": "best", "role": "assistant", "rank": 0, "replies": [
        {"text": "unranked", "role": "prompter", "replies": [{"text": "A2", "role": "assistant", "replies": [
          {"text": "left open", "role": "prompter"}]}]}]}]}})";
  EXPECT_EQ(chats(parse(tree)), "user:Q|assistant:best|user:unranked|assistant:A2|");
  EXPECT_EQ(parse(tree, {.language = "en"}).size(), 1u);
  EXPECT_TRUE(parse(tree, {.language = "de"}).empty());
  EXPECT_TRUE(parse(R"({"prompt": {"text": "Q", "role": "prompter"}})").empty());
  EXPECT_THAT(error_of(R"({"prompt": {"text": "Q", "role": "owner"}})"), HasSubstr("unknown role \"owner\""));
  EXPECT_THAT(error_of(R"({"message_id": "a", "parent_id": null, "text": "x"})"),
              HasSubstr("file of its trees"));
}

constexpr const char* kGlaive =
    R"x({"system": "SYSTEM: You may call these. Use them -\n{\n  \"name\": \"f\", \"description\": \"a } b\", \"parameters\": {}\n}\n",
  "chat": "USER: Hi\n\n\nASSISTANT: <functioncall> {\"name\": \"f\", \"arguments\": '{\"a\": 1}'} <|endoftext|>\n\n\nFUNCTION RESPONSE: {\"b\": 2}\n\n\nASSISTANT: Two. <|endoftext|>\n\n"})x";

TEST(Layout, GlaiveTextFormBecomesPlainCalls) {
  const std::string text = chats(parse(kGlaive));
  EXPECT_THAT(text, StartsWith("system:You can call functions. Each line describes one:\n{\"name\":\"f\""));
  EXPECT_THAT(text, testing::EndsWith(
                        "|user:Hi|assistant:<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>|"
                        "user:<tool_response>{\"b\": 2}</tool_response>|assistant:Two.|"));
  EXPECT_EQ(chats(parse(R"({"system": "SYSTEM: Be kind.", "chat": "USER: a\n\nASSISTANT: b"})")),
            "system:Be kind.|user:a|assistant:b|");
  EXPECT_TRUE(parse(R"({"system": "", "chat": "USER: a\nASSISTANT: <functioncall> {broken"})").empty());
  EXPECT_THAT(error_of(R"({"chat": "no turns"})"), HasSubstr("no turn of USER:"));
}

TEST(Layout, TemplateFormKeepsToolsAndCalls) {
  const LaidOutRow row = parse(kGlaive, {.tools = ToolForm::kTemplate}).front();
  EXPECT_EQ(row.row.tools[0]["function"]["name"], "f");
  ASSERT_EQ(row.row.messages.size(), 4u);
  EXPECT_EQ(row.row.messages[1].extra["tool_calls"][0]["function"]["arguments"], Json::parse(R"({"a": 1})"));
  EXPECT_EQ(row.row.messages[2].role, "tool");
}

TEST(Layout, ShareGptWithFunctions) {
  const std::string text = R"x({"conversations": [{"from": "human", "value": "Hi"},
      {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}"},
      {"from": "observation", "value": "7"}, {"from": "gpt", "value": "Seven"}],
      "system": "Be kind.", "tools": "[{\"name\": \"f\", \"parameters\": {\"type\": \"dict\"}}]"})x";
  EXPECT_THAT(chats(parse(text)), StartsWith("system:Be kind.\n\nYou can call functions."));
  EXPECT_THAT(chats(parse(text)), HasSubstr("{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}\n"));
  EXPECT_THAT(chats(parse(text)),
              HasSubstr("|assistant:<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}"));
  EXPECT_EQ(parse(text, {.tools = ToolForm::kTemplate}).front().row.messages[3].role, "tool");
  EXPECT_THAT(error_of(R"({"conversations": [{"from": "human", "value": "a"}], "tools": "{"})"),
              StartsWith("a.jsonl:3: \"tools\" is no list of functions (layout sharegpt"));
  EXPECT_EQ(chats(parse(R"({"conversations": [{"from": "human", "value": "a"}],
                            "chosen": {"from": "gpt", "value": "b"}, "rejected": {"from": "gpt", "value": "c"}})")),
            "user:a|assistant:b|");
}

TEST(Layout, ErrorsNamePlaceAndLayout) {
  EXPECT_THAT(error_of("3"), StartsWith("a.jsonl:3: no object"));
  EXPECT_THAT(error_of(R"({"x": 1})"), StartsWith("a.jsonl:3: none of the known layouts"));
  EXPECT_THAT(error_of(R"({"instruction": "a"})", {.layout = Layout::kDolly}),
              StartsWith("a.jsonl:3: \"response\" is no text (layout dolly"));
  EXPECT_THAT(error_of(R"({"question": "a"})", {.layout = Layout::kGsm8k}),
              HasSubstr("\"answer\" is no text"));
  EXPECT_THAT(error_of(R"({"instruction": "a", "instances": 3})"), HasSubstr("\"instances\" is no list"));
  EXPECT_THAT(error_of(R"({"instruction": "a", "instances": [3]})"), HasSubstr("an instance is no object"));
  for (const Layout layout :
       {Layout::kMessages, Layout::kShareGpt, Layout::kAlpaca, Layout::kOasst, Layout::kInduction,
        Layout::kGlaive, Layout::kSelfInstruct, Layout::kCompletion}) {
    EXPECT_THAT(error_of(R"({"x": 1})", {.layout = layout}), StartsWith("a.jsonl:3: ")) << to_string(layout);
  }
}

TEST(Layout, FilesGiveIdsAndCountWhatIsUnusable) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "layout_files";
  make_directories(folder);
  write_file_atomically(
      folder / "a.jsonl",
      "{\"instruction\": \"x\", \"instances\": [{\"output\": \"1\"}, {\"output\": \"2\"}]}\n"
      "{\"prompt\": {\"text\": \"Q\", \"role\": \"prompter\"}}\n"
      "{\"id\": 7, \"question\": \"q\", \"answer\": \"a\"}\n");
  std::vector<std::string> ids, sources;
  const int64_t unusable = for_each_laid_out_row(folder / "a.jsonl", {}, [&](const LaidOutRow& row) {
    ids.push_back(row.row.id);
    sources.push_back(row.row.source);
  });
  EXPECT_EQ(unusable, 1);
  EXPECT_EQ(ids, (std::vector<std::string>{"a.jsonl:1/1", "a.jsonl:1/2", "7"}));
  EXPECT_EQ(sources[2], (folder / "a.jsonl").string() + ":3");
  write_file_atomically(folder / "i.json", R"({"sum": "text"})");
  EXPECT_THROW(read_instructions(folder / "i.json"), Error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace calyrex::data
