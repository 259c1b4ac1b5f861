#include "calyrex/data/row_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace calyrex::data {
namespace {

ChatRow row(const std::string& text) { return parse_row(Json::parse(text), "a.jsonl:1"); }

TEST(RowStatistics, CountsRolesLengthsAndDuplicates) {
  RowStatistics statistics(nullptr);
  statistics.add(row(R"({"system": "abcd", "instruction": "ab", "output": "abc"})"));
  statistics.add(row(R"({"instruction": "Hello.", "output": "x"})"));
  statistics.add(row(R"({"instruction": "Hello.", "output": "x"})"));
  statistics.add(row(R"({"instruction": "hello", "output": "X!", "history": [["q", "a"]]})"));
  statistics.add(row(R"({"instruction": "hello", "output": "X!"})"));
  const Json json = statistics.to_json();
  EXPECT_EQ(json["rows"], 5);
  EXPECT_EQ(json["with_system"], 1);
  EXPECT_EQ(json["roles"], Json::parse(R"({"assistant": 6, "system": 1, "user": 6})"));
  EXPECT_EQ(json["duplicates"], Json::parse(R"({"exact": 1, "normalised": 2})"));
  EXPECT_EQ(json["bytes"]["max"], 9);
  EXPECT_EQ(json["bytes"]["total"], 9 + 7 + 7 + 9 + 7);
  EXPECT_EQ(json["bytes"]["p50"], 7);
  EXPECT_EQ(json["bytes"]["p95"], 9);
  EXPECT_EQ(json["turns"]["max"], 2);
  EXPECT_DOUBLE_EQ(json["turns"]["mean"].get<double>(), 1.2);
  EXPECT_FALSE(json.contains("tokens"));
}

TEST(RowStatistics, TextShowsSharesAndLengths) {
  RowStatistics statistics(nullptr);
  statistics.add(row(R"({"system": "abcd", "instruction": "ab", "output": "abc"})"));
  statistics.add(row(R"({"instruction": "ab", "output": "abc"})"));
  const std::string text = format_row_statistics("a.jsonl", statistics.to_json());
  EXPECT_THAT(text, testing::StartsWith("a.jsonl\n  rows              2\n"));
  EXPECT_THAT(text, testing::HasSubstr("system message    1 (50.0 %)"));
  EXPECT_THAT(text, testing::HasSubstr("answers a row     mean 1.0"));
  EXPECT_THAT(format_row_statistics("none", RowStatistics(nullptr).to_json()), testing::HasSubstr("rows"));
}

}  // namespace
}  // namespace calyrex::data
