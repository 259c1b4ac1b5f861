#include "calyrex/base/fields.h"

#include <gtest/gtest.h>

namespace calyrex {
namespace {

enum class Colour { kRed, kGreen };
constexpr auto enum_names(Colour) {
  return std::to_array<EnumName<Colour>>({{Colour::kRed, "red"}, {Colour::kGreen, "green"}});
}

struct Inner {
  int64_t width = 3;
  std::optional<int64_t> budget;
  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("width", width, "a width");
    visit("budget", budget, "a budget");
  }
};

struct Outer {
  double rate = 0.5;
  bool on = false;
  Colour colour = Colour::kRed;
  std::string name = "n";
  std::array<double, 2> betas = {0.9, 0.999};
  std::vector<Inner> list;
  Inner inner;
  template <class Visitor>
  void visit_fields(Visitor& visit) {
    visit("rate", rate, "a rate");
    visit("on", on, "a switch");
    visit("colour", colour, "a colour");
    visit("name", name, "a name");
    visit("betas", betas, "two numbers");
    visit("list", list, "a list");
    visit("inner", inner, "nested");
  }
};

std::string message_of(std::string_view yaml) {
  Outer outer;
  try {
    read_fields(parse_yaml(yaml, "f.yaml"), outer);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(Fields, ReadsEveryKindAndKeepsWhatIsAbsent) {
  Outer outer;
  read_fields(
      parse_yaml(
          "{rate: 2e-4, on: true, colour: green, betas: [0.8, 0.9], list: [{width: 1}], inner: {budget: 7}}",
          "t"),
      outer);
  EXPECT_EQ(outer.rate, 2e-4);
  EXPECT_TRUE(outer.on);
  EXPECT_EQ(outer.colour, Colour::kGreen);
  EXPECT_EQ(outer.betas, (std::array<double, 2>{0.8, 0.9}));
  ASSERT_EQ(outer.list.size(), 1u);
  EXPECT_EQ(outer.list[0].width, 1);
  EXPECT_EQ(outer.inner.budget, 7);
  EXPECT_EQ(outer.inner.width, 3);
  EXPECT_EQ(outer.name, "n");
}

TEST(Fields, NullAndAutoClearAnOptional) {
  for (const std::string_view text : {"null", "auto", "~", ""}) {
    Outer outer;
    outer.inner.budget = 1;
    read_fields(parse_yaml(fmt::format("inner: {{budget: {}}}", text), "t"), outer);
    EXPECT_FALSE(outer.inner.budget.has_value()) << text;
  }
}

TEST(Fields, WhatIsWrittenReadsBack) {
  Outer outer;
  outer.colour = Colour::kGreen;
  outer.list.resize(2);
  outer.inner.budget = 5;
  Outer copy;
  read_fields(config_from_json(write_fields(outer), "t"), copy);
  EXPECT_EQ(write_fields(copy), write_fields(outer));
}

TEST(Fields, ErrorsNamePlaceKeyAndRemedy) {
  EXPECT_EQ(message_of("rat: 1"), "f.yaml:1:1: unknown key 'rat'; did you mean 'rate'?");
  EXPECT_EQ(message_of("inner: {widht: 1}"), "f.yaml:1:9: unknown key 'inner.widht'; did you mean 'width'?");
  EXPECT_EQ(message_of("colour: blue"), "f.yaml:1:1: 'colour' must be one of red, green, found 'blue'");
  EXPECT_EQ(message_of("inner: {width: 1.5}"),
            "f.yaml:1:9: 'inner.width' must be a whole number, found '1.5'");
  EXPECT_EQ(message_of("betas: [1]"), "f.yaml:1:1: 'betas' must be a list of 2, found a list");
  EXPECT_EQ(message_of("on: yes"), "f.yaml:1:1: 'on' must be true or false, found 'yes'");
  EXPECT_EQ(message_of("rate: .inf"), "f.yaml:1:1: 'rate' must be a number, found '.inf'");
}

TEST(Fields, DocumentsEveryFieldWithItsDefault) {
  const std::string table = document_fields<Outer>();
  EXPECT_NE(table.find("| `inner.width` | `3` | a width |"), std::string::npos) << table;
  EXPECT_NE(table.find("| `colour` | `\"red\"` | a colour (`red`, `green`) |"), std::string::npos) << table;
}

}  // namespace
}  // namespace calyrex
