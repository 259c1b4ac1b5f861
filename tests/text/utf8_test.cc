#include "calyrex/text/utf8.h"

#include <gtest/gtest.h>

namespace calyrex::text {
namespace {

TEST(Utf8, KnowsWellFormedText) {
  for (const char* good : {"", "a", "\u00e9", "\u65e5", "\U0001f600", "\U0010ffff", "\ud7ff\ue000"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "a\xff", "\xe6\x97"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

TEST(Utf8, TrimsAsPythonStrips) {
  EXPECT_EQ(trim_start(" \t\r\n\x0b\x0c\x1c\x1f\u0085\u00a0\u1680\u2003\u2028\u202f\u205f\u3000 a "), "a ");
  EXPECT_EQ(trim_end(" a \t\u3000\u00a0\u2003\n"), " a");
  EXPECT_EQ(trim_end("\u3000\u3000"), "");
  EXPECT_EQ(trim_start("\u200b\ufeff"), "\u200b\ufeff");
  EXPECT_EQ(trim_end("x\u65e5"), "x\u65e5");
}

TEST(Utf8, FindsTheCommonPrefix) {
  EXPECT_EQ(common_prefix("abc", "abd"), 2u);
  EXPECT_EQ(common_prefix("abc", "ab"), 2u);
  EXPECT_EQ(common_prefix("ab", "abc"), 2u);
  EXPECT_EQ(common_prefix("", "x"), 0u);
}

}  // namespace
}  // namespace calyrex::text
