// BFCL and Glaive: how functions are shown in each form, verdicts, metrics, faults of rows.
#include <gmock/gmock.h>

#include "tests/eval/task_support.h"

namespace calyrex::eval {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace test;

constexpr const char* kSimple =
    R"({"id": "simple_0", "question": [[{"role": "user", "content": "Area?"}]], "function": [{"name": "geo.area", "description": "d", "parameters": {"type": "dict", "properties": {"base": {"type": "float", "description": "x"}, "kind": {"type": "tuple", "items": {"type": "dict", "properties": {"type": {"type": "any"}}}}}, "required": ["base"]}}]})";
constexpr const char* kSimpleAnswer =
    R"({"id": "simple_0", "ground_truth": [{"geo.area": {"base": [10], "kind": [""]}}]})";
constexpr const char* kIrrelevance =
    R"({"id": "irrelevance_0", "question": [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}]], "function": [{"name": "f", "description": "d", "parameters": {"type": "dict", "properties": {}, "required": []}}]})";

DataFolder& bfcl_folder() {
  static DataFolder folder;
  folder.write("BFCL_v4_simple_python.json", kSimple);
  folder.write("possible_answer/BFCL_v4_simple_python.json", kSimpleAnswer);
  folder.write("BFCL_v4_irrelevance.json", kIrrelevance);
  return folder;
}

TEST(Bfcl, ShowsFunctionsInEveryForm) {
  const std::string schema =
      R"({"name":"geo.area","description":"d","parameters":{"type":"object","properties":{"base":{"type":"number","description":"x"},"kind":{"type":"array","items":{"type":"object","properties":{"type":{"type":"string"}}}}},"required":["base"]}})";
  GenerateAsk ask = first_ask(*load("bfcl", options(bfcl_folder().path(), Form::kTools)).at(0));
  EXPECT_EQ(to_json_line(ask.tools), R"([{"type":"function","function":)" + schema + "}]");
  ASSERT_EQ(ask.messages.size(), 2u);
  EXPECT_EQ(ask.messages[0].content, "You are a helpful assistant.");
  EXPECT_EQ(ask.messages[1].content, "Area?");

  ask = first_ask(*load("bfcl", options(bfcl_folder().path(), Form::kSystem)).at(0));
  EXPECT_TRUE(ask.tools.is_null());
  ASSERT_EQ(ask.messages.size(), 2u);
  EXPECT_THAT(ask.messages[0].content, HasSubstr("\n" + schema + "\n"));
  EXPECT_THAT(ask.messages[0].content, HasSubstr("<tool_call>{\"name\": \"FUNCTION\""));
  EXPECT_EQ(ask.messages[1].content, "Area?");

  ask = first_ask(*load("bfcl", options(bfcl_folder().path(), Form::kUser)).at(0));
  ASSERT_EQ(ask.messages.size(), 1u);
  EXPECT_THAT(ask.messages[0].content, HasSubstr(schema));
  EXPECT_TRUE(ask.messages[0].content.ends_with("\n\nArea?"));
}

TEST(Bfcl, ARowsOwnSystemMessageStays) {
  GenerateAsk ask = first_ask(*load("bfcl", options(bfcl_folder().path(), Form::kTools)).at(1));
  EXPECT_EQ(ask.messages.at(0).content, "Be brief.");
  ask = first_ask(*load("bfcl", options(bfcl_folder().path(), Form::kSystem)).at(1));
  EXPECT_TRUE(ask.messages.at(0).content.starts_with("Be brief.\n\nYou can call functions."));
}

TEST(Bfcl, GradesCallsAndRestraint) {
  const Samples samples = load("bfcl", options(bfcl_folder().path(), Form::kSystem));
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0]->id(), "simple_0");
  Metrics metrics = metrics_of("bfcl", samples, {"geo.area(base=10.0)", "Nobody knows."});
  EXPECT_DOUBLE_EQ(metrics.at("acc").value, 1);
  metrics = metrics_of("bfcl", samples, {"geo.area(base=11)", "Nobody knows."});
  EXPECT_DOUBLE_EQ(metrics.at("acc_simple").value, 0);
  EXPECT_DOUBLE_EQ(metrics.at("acc_irrelevance").value, 1);
  EXPECT_DOUBLE_EQ(metrics.at("acc_macro").value, 0.5);
  metrics = metrics_of("bfcl", samples, {"", R"({"name": "f", "arguments": {}})"});
  EXPECT_DOUBLE_EQ(metrics.at("acc").value, 0);
  const Verdict verdict = grade(*samples[0], {"geo.area(base='ten')"});
  EXPECT_EQ(verdict.detail.at("fault"), "type of base");
}

TEST(Bfcl, NamesTheFaultyRow) {
  DataFolder folder;
  EXPECT_THAT(load_error("bfcl", options(folder.path(), Form::kSystem)),
              HasSubstr("holds no BFCL_v4_CATEGORY.json"));
  folder.write("BFCL_v4_simple_python.json", kSimple);
  EXPECT_THAT(load_error("bfcl", options(folder.path(), Form::kSystem)), HasSubstr("possible_answer"));
  folder.write("possible_answer/BFCL_v4_simple_python.json",
               R"({"id": "other", "ground_truth": [{"f": {}}]})");
  EXPECT_THAT(load_error("bfcl", options(folder.path(), Form::kSystem)),
              HasSubstr("simple_python.json:1: field 'id': expected an id that possible_answer holds"));
  folder.write("possible_answer/BFCL_v4_simple_python.json",
               R"({"id": "simple_0", "ground_truth": [{"f": {"a": 1}}]})");
  EXPECT_THAT(load_error("bfcl", options(folder.path(), Form::kSystem)),
              HasSubstr("simple_python.json:1: field 'ground_truth': allowed values of \"a\" are no list"));
  folder.write("possible_answer/BFCL_v4_simple_python.json", kSimpleAnswer);
  std::string row = kSimple;
  folder.write("BFCL_v4_simple_python.json", row.replace(row.find("float"), 5, "flaot"));
  EXPECT_THAT(load_error("bfcl", options(folder.path(), Form::kSystem)),
              HasSubstr("simple_python.json:1: field 'function': parameter \"base\": no \"type\""));
  folder.write("BFCL_v4_simple_python.json", R"({"id": "simple_0", "question": [], "function": []})");
  EXPECT_THAT(load_error("bfcl", options(folder.path(), Form::kSystem)),
              HasSubstr("field 'function': expected a list"));
}

constexpr const char* kGlaive = R"([{"conversations": [
  {"from": "human", "value": "Find rice."},
  {"from": "function_call", "value": "{\"name\": \"find\", \"arguments\": {\"what\": [\"rice\"], \"max\": 2}}"},
  {"from": "observation", "value": "{\"hits\": 1}"},
  {"from": "gpt", "value": "One hit."}],
  "tools": "[{\"name\": \"find\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}]"},
 {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}], "tools": "[]"}])";

Samples glaive(Form form) {
  DataFolder folder;
  folder.write("glaive_toolcall_en_demo.json", kGlaive);
  return load("glaive", options(folder.path(), form));
}

TEST(Glaive, MakesASampleOfEachTurnOfTheAssistant) {
  const Samples samples = glaive(Form::kSystem);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0]->id(), "0/1");
  EXPECT_EQ(samples[1]->id(), "0/3");
  const GenerateAsk ask = first_ask(*samples[1]);
  ASSERT_EQ(ask.messages.size(), 4u);
  EXPECT_EQ(ask.messages[2].role, "assistant");
  EXPECT_EQ(ask.messages[2].content,
            R"(<tool_call>{"name":"find","arguments":{"what":["rice"],"max":2}}</tool_call>)");
  EXPECT_EQ(ask.messages[3].role, "user");
  EXPECT_EQ(ask.messages[3].content, R"(<tool_response>{"hits": 1}</tool_response>)");
}

TEST(Glaive, ThroughTheTemplatesToolsCallsAreFields) {
  const GenerateAsk ask = first_ask(*glaive(Form::kTools).at(1));
  EXPECT_EQ(ask.tools.size(), 1u);
  ASSERT_EQ(ask.messages.size(), 4u);
  EXPECT_FALSE(ask.messages[2].has_content);
  EXPECT_EQ(
      to_json_line(ask.messages[2].extra),
      R"({"tool_calls":[{"type":"function","function":{"name":"find","arguments":{"what":["rice"],"max":2}}}]})");
  EXPECT_EQ(ask.messages[3].role, "tool");
  EXPECT_EQ(ask.messages[3].content, R"({"hits": 1})");
}

TEST(Glaive, GradesCallsAndWords) {
  const Samples samples = glaive(Form::kUser);
  Metrics metrics = metrics_of(
      "glaive", samples, {R"({"name": "find", "arguments": {"max": 2, "what": ["rice"]}})", "One hit."});
  EXPECT_DOUBLE_EQ(metrics.at("exact_match").value, 1);
  EXPECT_DOUBLE_EQ(metrics.at("no_call").value, 1);
  metrics = metrics_of("glaive", samples, {"find(what=['rice'])", "find(what=['rice'], max=2)"});
  EXPECT_DOUBLE_EQ(metrics.at("exact_match").value, 0);
  EXPECT_DOUBLE_EQ(metrics.at("name_match").value, 1);
  EXPECT_DOUBLE_EQ(metrics.at("call_parsed").value, 1);
  EXPECT_DOUBLE_EQ(metrics.at("no_call").value, 0);
}

std::string glaive_error(std::string text, const std::string& from, const std::string& to) {
  DataFolder folder;
  folder.write("rows.json", text.replace(text.find(from), from.size(), to));
  return load_error("glaive", options(folder.path() / "rows.json", Form::kSystem));
}

TEST(Glaive, NamesTheFaultyTurn) {
  EXPECT_THAT(glaive_error(kGlaive, "\"human\"", "\"alien\""),
              HasSubstr("rows.json: entry 1: field 'conversations[0].from': expected system, human"));
  EXPECT_THAT(
      glaive_error(kGlaive, "{\\\"name\\\": \\\"find\\\", \\\"arg", "{\\\"nome\\\": \\\"find\\\", \\\"arg"),
      HasSubstr("field 'conversations[1].value': expected a call"));
  EXPECT_THAT(glaive_error(kGlaive, "\\\"max\\\": 2}}", "\\\"max\\\": 2}"),
              HasSubstr("field 'conversations[1].value': expected JSON"));
  EXPECT_THAT(glaive_error(kGlaive, "\"[{\\\"name", "\"{\\\"name"),
              HasSubstr("field 'tools': expected JSON"));
  EXPECT_THAT(glaive_error(kGlaive, "{\"from\": \"human\", \"value\": \"Find rice.\"},", ""),
              HasSubstr("field 'conversations[0].from': expected a turn of human or observation"));
  EXPECT_THAT(glaive_error(kGlaive, "[]", "[3]"), HasSubstr("entry 2: field 'tools'"));
}

}  // namespace
}  // namespace calyrex::eval
