#include "calyrex/data/unicode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace calyrex::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Unicode, FoldsCaseWidthAndQuotes) {
  EXPECT_EQ(fold_text("STRASSE"), fold_text("Straße"));
  EXPECT_EQ(fold_text("ＡＢＣ１２"), "abc12");
  EXPECT_EQ(fold_text("Anna’s “cup”"), "anna's \"cup\"");
  EXPECT_EQ(fold_text("\u0065\u0301"), fold_text("É"));
  EXPECT_EQ(fold_text("a\xffz"), "a\ufffdz");
}

TEST(Unicode, MapsCaseWithoutALanguage) {
  EXPECT_EQ(to_upper("straße i"), "STRASSE I");
  EXPECT_EQ(to_lower("İI ÉΣ"), "i\u0307i éς");
}

TEST(Unicode, TrimsUnicodeSpaceAndPunctuation) {
  EXPECT_EQ(trim("\u3000\u00a0 a b \n"), "a b");
  EXPECT_EQ(trim(" \t"), "");
  EXPECT_EQ(trim_punctuation(" «Paris!» "), "Paris");
  EXPECT_EQ(trim_punctuation("..."), "");
}

TEST(Unicode, KnowsLettersOfEveryScript) {
  EXPECT_TRUE(has_letter("日"));
  EXPECT_FALSE(has_letter("1.\xff"));
  EXPECT_TRUE(has_digit("१"));
  EXPECT_FALSE(has_upper_case("ﬁ日ß"));
  EXPECT_TRUE(has_lower_case("ß"));
  EXPECT_TRUE(starts_upper_case("(\u00c9lan"));
  EXPECT_FALSE(starts_upper_case("\"paris"));
}

TEST(Unicode, FindsPhrasesAtWordBoundaries) {
  EXPECT_TRUE(contains_phrase("It is PARIS.", "paris"));
  EXPECT_FALSE(contains_phrase("Parisian", "Paris"));
  EXPECT_FALSE(contains_phrase("comparis", "Paris"));
  EXPECT_FALSE(contains_phrase("112", "12"));
  EXPECT_TRUE(contains_phrase("12.", "12"));
  EXPECT_TRUE(contains_phrase("Parisian or Paris", "Paris"));
  EXPECT_FALSE(contains_phrase("cafe\u0301s", "cafe"));
  EXPECT_FALSE(contains_phrase("anything", " "));
  EXPECT_TRUE(contains_phrase("That’s it!", "that's it"));
}

TEST(Unicode, FindsPhrasesAtTheEnds) {
  EXPECT_TRUE(starts_with_phrase("\"Ahoy! Red", "ahoy"));
  EXPECT_FALSE(starts_with_phrase("Ahoyed", "ahoy"));
  EXPECT_TRUE(ends_with_phrase("Red. The end.\"", "The end"));
  EXPECT_FALSE(ends_with_phrase("Bend", "end"));
  EXPECT_FALSE(ends_with_phrase("", "end"));
}

TEST(Unicode, SplitsWordsLinesAndSentences) {
  EXPECT_THAT(split_words(" a\u3000b\tc-d "), ElementsAre("a", "b", "c-d"));
  EXPECT_THAT(split_lines("a\r\n\n  b \n"), ElementsAre("a", "b"));
  EXPECT_THAT(split_sentences("It is 3.5 m. Really?! \"Yes.\" And so on"),
              ElementsAre("It is 3.5 m.", "Really?!", "\"Yes.\"", "And so on"));
  EXPECT_THAT(split_sentences("... ! ?"), IsEmpty());
  EXPECT_THAT(split_sentences(""), IsEmpty());
}

TEST(Unicode, GivesCodePointsAndTheirKinds) {
  EXPECT_EQ(code_points("a\u00e9\xff\U0001f600"), U"a\u00e9\ufffd\U0001f600");
  EXPECT_EQ(to_utf8(U"\u00e9\U0001f600"), "\u00e9\U0001f600");
  for (const char32_t c : U"a_7\u00e9\u00b2\u0663\u6f22") EXPECT_TRUE(c == 0 || is_regex_word(c));
  for (const char32_t c : U"-.' \u2019\u0301\U0001f600") EXPECT_FALSE(c != 0 && is_regex_word(c));
  EXPECT_TRUE(is_letter_digit_or_mark(U'\u0301'));
  EXPECT_FALSE(is_letter_digit_or_mark(U'_'));
  for (const char32_t c : U"\u6f22\u3042\u0e01") EXPECT_TRUE(c == 0 || is_word_by_itself(c));
  EXPECT_FALSE(is_word_by_itself(U'a') || is_word_by_itself(U'\u0434'));
}

}  // namespace
}  // namespace calyrex::data
