#include "calyrex/lm/stop_matcher.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace calyrex::lm {
namespace {

/// What passes when `text` arrives in pieces of the given sizes (the last one repeats).
std::string pass(const std::string& text, const std::vector<std::string>& stops,
                 const std::vector<size_t>& sizes) {
  StopMatcher matcher(stops);
  std::string passed;
  size_t begin = 0;
  for (size_t n = 0; begin < text.size(); ++n) {
    const size_t size = sizes[std::min(n, sizes.size() - 1)];
    passed += matcher.push(text.substr(begin, size));
    begin += size;
  }
  return passed + matcher.finish();
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBeginAStop) {
  StopMatcher matcher({"END", "\n\n"});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.push("E"), "");
  EXPECT_EQ(matcher.push("N"), "");
  EXPECT_EQ(matcher.push("x"), "ENx");
  EXPECT_EQ(matcher.push("\n"), "");
  EXPECT_EQ(matcher.push("E\n"), "\nE");
  EXPECT_EQ(matcher.push("\nmore"), "");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, TheFirstCompleteStopCounts) {
  EXPECT_EQ(pass("one two three", {"three", "two"}, {100}), "one ");
  EXPECT_EQ(pass("aaab", {"aab"}, {1}), "a");
  EXPECT_EQ(pass("abc", {"abc", "b"}, {3}), "a");
  EXPECT_EQ(pass("abc", {"bc", "abc"}, {3}), "");
  EXPECT_EQ(pass("no stop", {}, {3}), "no stop");
}

RC_GTEST_PROP(StopMatcher, PiecesDoNotMatter, ()) {
  const auto letters = rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c'));
  const std::string text = *letters;
  const auto stops = *rc::gen::container<std::vector<std::string>>(rc::gen::nonEmpty(letters));
  const auto sizes =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(1, 4)));
  RC_ASSERT(pass(text, stops, sizes) == pass(text, stops, {1}));
}

RC_GTEST_PROP(StopMatcher, NoStopPassesAndNothingElseIsLost, ()) {
  const auto letters = rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c'));
  const std::string text = *letters;
  const auto stop = *rc::gen::nonEmpty(letters);
  RC_ASSERT(pass(text, {stop}, {2}) == text.substr(0, text.find(stop)));
}

}  // namespace
}  // namespace calyrex::lm
