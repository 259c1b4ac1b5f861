#include "calyrex/base/config_node.h"

#include <gtest/gtest.h>

#include "calyrex/base/config_edit.h"
#include "calyrex/base/error.h"

namespace calyrex {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(ConfigNode, PlacesAreFileLineAndColumn) {
  const ConfigNode root = parse_yaml("a: 1\nb:\n  c: x\n", "f.yaml");
  EXPECT_EQ(root.find("b")->find("c")->place, "f.yaml:3:3");
}

TEST(ConfigNode, ScalarsReadAsTheirJsonTypes) {
  const ConfigNode root = parse_yaml("[1, 1.5, true, null, text, '1', -2e-4]", "t");
  EXPECT_EQ(config_to_json(root), Json::parse(R"([1, 1.5, true, null, "text", "1", -2e-4])"));
}

TEST(ConfigNode, JsonRoundTrips) {
  const Json json = Json::parse(R"({"a": [1, {"b": "2"}], "c": null, "d": false})");
  EXPECT_EQ(config_to_json(config_from_json(json, "t")), json);
}

TEST(ConfigNode, OverridesCreateAndReplace) {
  ConfigNode root = parse_yaml("train: {epochs: 1}", "t");
  apply_override(root, "train.epochs=2");
  apply_override(root, "data.train=[{path: a.jsonl}]");
  EXPECT_EQ(config_to_json(root),
            Json::parse(R"({"train": {"epochs": 2}, "data": {"train": [{"path": "a.jsonl"}]}})"));
  EXPECT_NE(message_of([&] { apply_override(root, "novalue"); }).find("key=value"), std::string::npos);
}

TEST(ConfigNode, EntriesKeepTheirPlaces) {
  const ConfigNode other = parse_yaml("x: {y: [1]}", "other.yaml");
  ConfigNode root = parse_yaml("train: {epochs: 1}", "t");
  set_entry(root, "train.deep.list", *other.find("x")->find("y"));
  EXPECT_EQ(config_to_json(root), Json::parse(R"({"train": {"epochs": 1, "deep": {"list": [1]}}})"));
  EXPECT_EQ(root.find("train")->find("deep")->find("list")->place, "other.yaml:1:5");
  EXPECT_EQ(root.find("train")->find("deep")->place, "other.yaml:1:5") << "maps that it creates";
}

TEST(ConfigNode, BadYamlNamesThePlace) {
  EXPECT_NE(
      message_of([] { parse_yaml("a: 1\na: 2\n", "f.yaml"); }).find("f.yaml:2:1: key 'a' appears twice"),
      std::string::npos);
  EXPECT_NE(message_of([] { parse_yaml("a: [1, 2\nb: 3", "f.yaml"); }).find("f.yaml:"), std::string::npos);
  std::string deep;
  for (int n = 0; n < 100; ++n) deep += "[";
  EXPECT_FALSE(message_of([&] { parse_yaml(deep + "1" + std::string(100, ']'), "f.yaml"); }).empty());
}

TEST(ConfigNode, AliasesThatMultiplyAreBounded) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int n = 1; n < 8; ++n) {
    bomb += fmt::format("a{}: &a{} [", n, n);
    for (int k = 0; k < 10; ++k) bomb += fmt::format("*a{},", n - 1);
    bomb += "]\n";
  }
  EXPECT_NE(message_of([&] { parse_yaml(bomb, "f.yaml"); }).find("values"), std::string::npos);
}

}  // namespace
}  // namespace calyrex
