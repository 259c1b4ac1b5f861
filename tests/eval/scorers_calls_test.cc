// Reading and matching of function calls. Expected values are worked out by hand from the leaderboard's rule.
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/scorers/call_match.h"
#include "calyrex/eval/scorers/calls.h"
#include "calyrex/eval/scorers/json_value.h"
#include "calyrex/eval/scorers/python_calls.h"

namespace calyrex::eval {
namespace {

using testing::HasSubstr;

std::string read_as(std::string_view answer) { return to_json_line(calls_to_json(parse_calls(answer))); }

struct ReadCase {
  std::string answer;
  std::string calls;
};

constexpr const char* kF1 = R"([{"name":"f","arguments":{"a":1}}])";
constexpr const char* kFg = R"([{"name":"f","arguments":{"a":1}},{"name":"g","arguments":{}}])";

TEST(Calls, TableOfJsonForms) {
  const ReadCase cases[] = {
      {"", "[]"},
      {"I cannot do that.", "[]"},
      {R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)", kF1},
      {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": "
       "\"g\", "
       "\"arguments\": {}}\n</tool_call>",
       kFg},
      {R"(Sure! <tool_call>{"name": "f", "arguments": {"a": 1}})", kF1},
      {R"(<tool_call>[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]</tool_call>)",
       kFg},
      {R"(<functioncall> {"name": "f", "arguments": '{"a": 1}'})", kF1},
      {R"({'name': 'f', 'arguments': {'a': 1}})", kF1},
      {R"(<functioncall> {"name": "f", "arguments": "{\"a\": 1}"})", kF1},
      {R"([TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}])", kF1},
      {R"(<|python_tag|>{"name": "f", "parameters": {"a": 1}})", kF1},
      {R"(<function=f>{"a": 1}</function>)", kF1},
      {R"({"name": "f", "arguments": {"a": 1}})", kF1},
      {R"({"name": "f", "arguments": {"a": 1}}; {"name": "g", "parameters": {}})", kFg},
      {R"([{"type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}])", kF1},
      {R"({"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]})", kF1},
      {R"({"function": "f", "arguments": {"a": 1}})", kF1},
      {"```json\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n```", kF1},
      {"Here it is:\n```\nf(a=1)\n```\nDone.", kF1},
      {R"(I will call {"name": "f", "arguments": {"a": 1}} now {x})", kF1},
      {R"({"name": "f"})", "[]"},
      {R"({"name": 5, "arguments": {}})", "[]"},
      {R"({"name": "f", "arguments": [1]})", "[]"},
      {R"({"name": "f", "arguments": {"a": 1})", "[]"},
      {R"(<tool_call>nothing</tool_call> {"name": "f", "arguments": {"a": 1}})", kF1},
      {R"(<tool_call>{"name": "f", "arguments": {"a": "</b>"}}</tool_call>)",
       R"([{"name":"f","arguments":{"a":"</b>"}}])"},
      {"{\"answer\": 42}", "[]"},
      {"\xff{\"name\": \"f\", \"arguments\": {\"a\": 1}}", kF1},
  };
  for (const ReadCase& c : cases) EXPECT_EQ(read_as(c.answer), c.calls) << c.answer;
}

TEST(Calls, TableOfPythonForms) {
  const ReadCase cases[] = {
      {"f(a=1)", kF1},
      {"[f(a=1), g()]", kFg},
      {"f(a=1)\ng()", kFg},
      {"[f(a=1,), g(),]", kFg},
      {"a.b.c(x=-1.5e2, y=+3, z=1_000)", R"([{"name":"a.b.c","arguments":{"x":-150.0,"y":3,"z":1000}}])"},
      {R"(f(s="it's", t='a "b"', u='\u00e9\n\x41\q', v='a' "b"))",
       R"([{"name":"f","arguments":{"s":"it's","t":"a \"b\"","u":"é\nA\\q","v":"ab"}}])"},
      {"f(x='''a'b''', y=True, z=None, w=false)",
       R"([{"name":"f","arguments":{"x":"a'b","y":true,"z":null,"w":false}}])"},
      {"f(x=[1, (2, 3), {4, 5}, {}], y={'k': {'m': [1.0]}})",
       R"([{"name":"f","arguments":{"x":[1,[2,3],[4,5],{}],"y":{"k":{"m":[1.0]}}}}])"},
      {"f(1, 'b', c=2)", R"([{"name":"f","arguments":{"0":1,"1":"b","c":2}}])"},
      {"f(x=some.name)", R"([{"name":"f","arguments":{"x":"some.name"}}])"},
      {"f(x=g(1))", "[]"},
      {"f(a=1", "[]"},
      {"f(a=)", "[]"},
      {"f(a=1, a=2)", "[]"},
      {"f(a='open)", "[]"},
      {"f(a=1) and then", "[]"},
      {"hello (world)", R"([{"name":"hello","arguments":{"0":"world"}}])"},
      {"f(x=1e999)", "[]"},
  };
  for (const ReadCase& c : cases) EXPECT_EQ(read_as(c.answer), c.calls) << c.answer;
}

TEST(Calls, HostileAnswersTakeBoundedTime) {
  const auto begin = std::chrono::steady_clock::now();
  constexpr size_t kTenMegabytes = size_t{10} << 20;
  for (const std::string_view unit :
       {"{", "[", "\"", "<tool_call>", "<tool_call>{", "<function=", "f(", "f({", "f(a=[", "```\n", "\\",
        "{\"a\":", "</", "{\"name\":\"f\",\"arguments\":{}}", "f(a=1)\n", "\xff"}) {
    std::string answer;
    while (answer.size() < kTenMegabytes) answer += unit;
    EXPECT_LE(parse_calls(answer).size(), kMaxCalls);
    EXPECT_LE(parse_calls(std::string_view(answer).substr(0, kMaxAnswerJsonBytes)).size(), kMaxCalls);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

const char* const kSchemas = R"([
  {"name": "area", "description": "", "parameters": {"type": "dict", "properties": {
    "base": {"type": "integer"}, "height": {"type": "float"}, "unit": {"type": "string"},
    "exact": {"type": "boolean"}}, "required": ["base", "height"]}},
  {"name": "plan", "description": "", "parameters": {"type": "dict", "properties": {
    "stops": {"type": "array", "items": {"type": "string"}}, "sizes": {"type": "array", "items": {"type": "float"}},
    "who": {"type": "dict", "properties": {"name": {"type": "string"}}},
    "legs": {"type": "array", "items": {"type": "dict"}}, "note": {"type": "any"}, "pair": {"type": "tuple",
    "items": {"type": "integer"}}}, "required": ["stops"]}}])";

std::vector<FunctionSchema> schemas() {
  std::vector<FunctionSchema> list;
  for (const Json& json : Json::parse(kSchemas)) list.push_back(parse_function_schema(json, "schema"));
  return list;
}

std::string fault(const std::string& expected, const std::string& calls) {
  std::vector<ExpectedCall> wanted;
  for (const Json& json : Json::parse(expected)) wanted.push_back(parse_expected_call(json, "expected"));
  return calls_fault(parse_calls(calls), schemas(), wanted);
}

struct MatchCase {
  std::string calls;
  std::string fault;
};

TEST(BfclScorer, TableOfPlainArguments) {
  const std::string expected =
      R"([{"area": {"base": [10], "height": [5.0, 6], "unit": ["square Units", ""], "exact": ["", true]}}])";
  const MatchCase cases[] = {
      {"area(base=10, height=5.0)", ""},
      {"area(base=10, height=5)", ""},
      {"area(height=6.0, base=10)", ""},
      {"area(base=10, height=5, unit='SQUARE-units.')", ""},
      {"area(base=10, height=5, exact=True)", ""},
      {"", "0 calls instead of 1"},
      {"area(base=10, height=5)\narea(base=10, height=5)", "2 calls instead of 1"},
      {"Area(base=10, height=5)", "calls Area"},
      {"area(base=10)", "lacks height"},
      {"area(base=10, height=5, colour='red')", "has colour"},
      {"area(base=10.0, height=5)", "type of base"},
      {"area(base='10', height=5)", "type of base"},
      {"area(base=True, height=5)", "type of base"},
      {"area(base=11, height=5)", "value of base"},
      {"area(base=10, height=7)", "value of height"},
      {"area(base=10, height=5, unit='metres')", "value of unit"},
      {"area(base=10, height=5, exact=1)", "type of exact"},
      {"area(base=10, height=5, exact=None)", "type of exact"},
  };
  for (const MatchCase& c : cases) EXPECT_EQ(fault(expected, c.calls), c.fault) << c.calls;
}

TEST(BfclScorer, TableOfNestedArguments) {
  const std::string expected =
      R"([{"plan": {"stops": [["New York", "Boston"], ["NYC", "Boston"]], "sizes": [[1.5, 2], ""],
    "who": [{"name": ["Ann Lee"], "age": [7, ""]}, ""], "legs": [[{"to": ["A"]}, {"to": ["B"]}], ""],
    "note": ["user.note", ""], "pair": [[1, 2], ""]}}])";
  const MatchCase cases[] = {
      {"plan(stops=['new york', 'BOSTON'])", ""},
      {"plan(stops=['nyc', 'boston'])", ""},
      {"plan(stops=['boston', 'nyc'])", "value of stops"},
      {"plan(stops=['nyc'])", "value of stops"},
      {"plan(stops=['nyc', 3])", "type of stops"},
      {"plan(stops='nyc, boston')", "type of stops"},
      {"plan(stops=['nyc', 'boston'], sizes=[1.5, 2])", ""},
      {"plan(stops=['nyc', 'boston'], sizes=[1.5, 2.0])", ""},
      {"plan(stops=['nyc', 'boston'], sizes=['1.5', 2])", "type of sizes"},
      {"plan(stops=['nyc', 'boston'], who={'name': 'ann lee'})", ""},
      {"plan(stops=['nyc', 'boston'], who={'name': 'ann lee', 'age': 7})", ""},
      {"plan(stops=['nyc', 'boston'], who={'name': 'ann lee', 'age': 8})", "value of who"},
      {"plan(stops=['nyc', 'boston'], who={'age': 7})", "value of who"},
      {"plan(stops=['nyc', 'boston'], who={'name': 'ann lee', 'x': 7})", "value of who"},
      {"plan(stops=['nyc', 'boston'], legs=[{'to': 'a'}, {'to': 'b'}])", ""},
      {"plan(stops=['nyc', 'boston'], legs=[{'to': 'b'}, {'to': 'a'}])", "value of legs"},
      {"plan(stops=['nyc', 'boston'], note=user.note)", ""},
      {"plan(stops=['nyc', 'boston'], pair=(1, 2))", ""},
      {"plan(stops=['nyc', 'boston'], pair=(2, 1))", "value of pair"},
  };
  for (const MatchCase& c : cases) EXPECT_EQ(fault(expected, c.calls), c.fault) << c.calls;
}

TEST(BfclScorer, ParallelCallsMatchInAnyOrder) {
  const std::string expected =
      R"([{"area": {"base": [1, 2], "height": [3]}}, {"area": {"base": [1], "height": [3]}},
                                   {"plan": {"stops": [["x"]]}}])";
  EXPECT_EQ(fault(expected, "plan(stops=['x'])\narea(base=1, height=3)\narea(base=2, height=3)"), "");
  // Taking the first call that fits would leave none for the second expected call.
  EXPECT_EQ(fault(expected, "area(base=1, height=3)\narea(base=2, height=3)\nplan(stops=['x'])"), "");
  EXPECT_NE(fault(expected, "area(base=2, height=3)\narea(base=2, height=3)\nplan(stops=['x'])"), "");
  EXPECT_EQ(fault(expected, "plan(stops=['x'])"), "1 calls instead of 3");
  EXPECT_EQ(fault("[]", "nothing to call"), "");
  EXPECT_EQ(fault("[]", "area(base=1, height=3)"), "1 calls instead of 0");
}

TEST(BfclScorer, AVariableStandsForAValueOfAnotherType) {
  const std::string expected = R"([{"area": {"base": ["width"], "height": [5]}}])";
  EXPECT_EQ(fault(expected, "area(base=width, height=5)"), "");
  EXPECT_EQ(fault(expected, "area(base=3, height=5)"), "value of base");
}

std::string schema_error(const std::string& json) {
  try {
    parse_function_schema(Json::parse(json), "file:3");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(BfclScorer, RefusesMalformedSchemasAndAnswers) {
  EXPECT_THAT(schema_error("[]"), HasSubstr("file:3: a function without \"name\""));
  EXPECT_THAT(schema_error(R"({"name": "f"})"), HasSubstr("\"parameters\""));
  EXPECT_THAT(schema_error(R"({"name": "f", "parameters": {"properties": []}})"),
              HasSubstr("\"properties\""));
  EXPECT_THAT(schema_error(R"({"name": "f", "parameters": {"properties": {"a": 1}}})"), HasSubstr("\"a\""));
  EXPECT_THAT(schema_error(R"({"name": "f", "parameters": {"properties": {"a": {"type": "text"}}}})"),
              HasSubstr("parameter \"a\": no \"type\""));
  EXPECT_THAT(schema_error(R"({"name": "f", "parameters": {"properties": {}, "required": [1]}})"),
              HasSubstr("\"required\""));
  EXPECT_THROW(parse_expected_call(Json::parse(R"({"f": {"a": 1}})"), "x"), Error);
  EXPECT_THROW(parse_expected_call(Json::parse(R"({"f": {}, "g": {}})"), "x"), Error);
}

struct GlaiveCase {
  std::string answer;
  bool parsed;
  bool name;
  bool arguments;
};

TEST(GlaiveScorer, TableOfHandComputedCases) {
  const FunctionCall reference{
      .name = "find",
      .arguments = Json::parse(R"({"what": ["tea", "rice"], "max": 3, "deep": {"a": 1, "b": null}})")};
  const GlaiveCase cases[] = {
      {"", false, false, false},
      {"I would rather not.", false, false, false},
      {R"({"name": "find", "arguments": {"what": ["tea", "rice"], "max": 3, "deep": {"a": 1, "b": null}}})",
       true, true, true},
      {R"({"name": "find", "arguments": {"deep": {"b": null, "a": 1}, "max": 3.0, "what": ["tea", "rice"]}})",
       true, true, true},
      {R"({"name": "find", "arguments": {"what": ["rice", "tea"], "max": 3, "deep": {"a": 1, "b": null}}})",
       true, true, false},
      {R"({"name": "find", "arguments": {"what": ["Tea", "rice"], "max": 3, "deep": {"a": 1, "b": null}}})",
       true, true, false},
      {R"({"name": "find", "arguments": {"what": ["tea", "rice"], "max": "3", "deep": {"a": 1, "b": null}}})",
       true, true, false},
      {R"({"name": "find", "arguments": {"what": ["tea", "rice"], "max": 3}})", true, true, false},
      {R"({"name": "find", "arguments": {}})", true, true, false},
      {R"({"name": "Find", "arguments": {"what": ["tea", "rice"], "max": 3, "deep": {"a": 1, "b": null}}})",
       true, false, true},
      {R"({"name": "find", "arguments": "{\"what\": [\"tea\", \"rice\"], \"max\": 3, \"deep\": {\"a\": 1, \"b\": null}}"})",
       true, true, true},
      {R"(find(what=["tea", "rice"], max=3, deep={"a": 1, "b": None}))", true, true, true},
      {R"({"name": "find", "arguments": {"what": ["tea", "rice"], "max": 3, "deep": {"a": 1, "b": null}}} {"name": "g", "arguments": {}})",
       false, false, false},
      {R"({"name": "find", "arguments": {"what": ["tea", "rice"], "max": 3, "deep": {"a": 1, "b": null}})",
       false, false, false},
  };
  for (const GlaiveCase& c : cases) {
    const CallAgreement agreement = compare_calls(parse_calls(c.answer), reference);
    EXPECT_EQ(agreement.parsed, c.parsed) << c.answer;
    EXPECT_EQ(agreement.name, c.name) << c.answer;
    EXPECT_EQ(agreement.arguments, c.arguments) << c.answer;
  }
}

TEST(SameJson, LooksAtValuesNotAtOrder) {
  EXPECT_TRUE(same_json(Json::parse(R"({"a": 1, "b": [true, "x"]})"),
                        Json::parse(R"({"b": [true, "x"], "a": 1.0})")));
  EXPECT_FALSE(same_json(Json::parse("[1, 2]"), Json::parse("[2, 1]")));
  EXPECT_FALSE(same_json(Json::parse(R"({"a": 1})"), Json::parse(R"({"a": 1, "b": 2})")));
  EXPECT_FALSE(same_json(Json::parse("1"), Json::parse("true")));
  EXPECT_FALSE(same_json(Json::parse("{}"), Json::parse("[]")));
}

}  // namespace
}  // namespace calyrex::eval
