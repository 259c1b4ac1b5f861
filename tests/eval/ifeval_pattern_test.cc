// Regular expressions from data: Python's meaning of letters and marks, bounds, faults by name.
#include <ctime>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/eval/ifeval/pattern.h"

namespace calyrex::ifeval {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

std::optional<int64_t> count(std::string_view pattern, const std::string& text,
                             Case letter_case = Case::kIgnore) {
  return Pattern(pattern, letter_case).count(text, kAll);
}

std::string fault(std::string_view pattern) {
  try {
    Pattern(pattern, Case::kIgnore);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "none";
}

TEST(IfevalPattern, CountsMatchesThatDoNotOverlap) {
  EXPECT_EQ(count("aa", "aaaaa"), 2);
  EXPECT_EQ(count("the", "The other THEME"), 3);
  EXPECT_EQ(count("", "ab"), 3);
  EXPECT_EQ(count("a*", "baac"), 4);  // "", "aa", "", ""
  EXPECT_EQ(Pattern("a", Case::kIgnore).count("aaaa", 2), 2);
}

TEST(IfevalPattern, LettersEqualWithoutCase) {
  EXPECT_EQ(count("straße", "STRAẞE straße STRASSE"), 2);
  EXPECT_EQ(count("i", "iIİı"), 4);
  EXPECT_EQ(count("[h-j]", "İ"), 1);
  EXPECT_EQ(count("[^i]", "ıx"), 1);
  EXPECT_EQ(count("k", "kK\u212a"), 3);
  EXPECT_EQ(count("s", "sS\u017f"), 3);
  EXPECT_EQ(count("\u00b5", "\u00b5\u03bc\u039c"), 3);
  EXPECT_EQ(count("i", "I\u0130", Case::kSensitive), 0);
  EXPECT_EQ(count("(?i:i)i", "\u0130i\u0130I", Case::kSensitive), 1);
}

TEST(IfevalPattern, MarksOfUnicode) {
  EXPECT_EQ(count("\\w+", "naïve Ⅷ ½ 日本 _"), 5);
  EXPECT_EQ(count("\\w+", "e\u0301t"), 2);  // a combining mark is no word character
  EXPECT_EQ(count("\\bword\\b", "word, wordy sword wörd (word)"), 2);
  EXPECT_EQ(count("\\s", "\x1c\xc2\x85\xc2\xa0\xe2\x80\xa8"), 4);
  EXPECT_EQ(count("\\s", "\u180e\u200b"), 0);
  EXPECT_EQ(count("\\d", "7٣x"), 2);
  EXPECT_EQ(count(".", "a\r\u2028\n"), 3);
  EXPECT_EQ(count("\\v", "\x0b\n"), 1);
}

TEST(IfevalPattern, FaultsAreNamed) {
  EXPECT_EQ(fault("x("), "regular expression 'x(': missing ), unterminated subpattern at position 2");
  EXPECT_THAT(fault("*"), testing::HasSubstr("nothing to repeat"));
  EXPECT_THAT(fault("a**"), testing::HasSubstr("multiple repeat"));
  EXPECT_THAT(fault("[a"), testing::HasSubstr("unterminated character set"));
  EXPECT_THAT(fault("a\\"), testing::HasSubstr("bad escape (end of pattern)"));
  EXPECT_THAT(fault("\\p{L}"), testing::HasSubstr("bad escape \\p"));
  EXPECT_THAT(fault("a(?i)"), testing::HasSubstr("global flags not at the start"));
  EXPECT_THAT(fault("\\1(a)"), testing::HasSubstr("invalid group reference 1"));
  EXPECT_THAT(fault("a{3,2}"), testing::HasSubstr("min repeat greater than max repeat"));
  EXPECT_THAT(fault("a{99999999999999}"), testing::HasSubstr("too large"));
  EXPECT_THAT(fault(std::string(20000, 'a')), testing::HasSubstr("20000 bytes; at most 10000"));
  EXPECT_EQ(fault("C++"), "none");  // a possessive quantifier since Python 3.11
}

TEST(IfevalPattern, EndlessBacktrackingIsAnOutcome) {
  const std::string long_run(40, 'a');
  for (const int64_t at_most : {int64_t{1}, kAll}) {
    const auto search = [at_most](std::string_view pattern, const std::string& text) {
      return Pattern(pattern, Case::kIgnore).count(text, at_most);
    };
    EXPECT_EQ(search("(a+)+(b|c)d", long_run + "ed"), std::nullopt);
    EXPECT_EQ(search("(a|aa)+$", std::string(5000, 'a') + "b"), std::nullopt);
    EXPECT_EQ(search("(.*)(.*)(.*)(.*)zy", std::string(3000, 'x') + "y"), std::nullopt);
    EXPECT_EQ(search("(a+)+$", "aaab" + long_run), 1);
  }
}

TEST(IfevalPattern, RunsThatOneItemSwallowsAreCountedToo) {
  // Quadratic without a backtracking point: every start runs to the end.
  EXPECT_EQ(count("a[^b]*bc", std::string(2'000'000, 'a') + "c"), std::nullopt);
}

TEST(IfevalPattern, LongTextsTakeLinearTime) {
  std::string text;
  while (text.size() < 10'000'000) text += "The quick brown fox jumps over the lazy dog. ";
  const std::clock_t start = std::clock();
  EXPECT_EQ(Pattern("zebra", Case::kIgnore).count(text, 1), 0);
  EXPECT_EQ(count("zebra", text), 0);
  EXPECT_GT(count("\\bfox\\b", text), 100'000);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 20.0);
}

}  // namespace
}  // namespace calyrex::ifeval
