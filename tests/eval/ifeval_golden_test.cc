// Against Python itself: re, str, json, NLTK's tokenizers and langdetect over drawn texts
// (tools/golden/make_ifeval_goldens.py).
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/json.h"
#include "calyrex/eval/ifeval/answer.h"
#include "calyrex/eval/ifeval/pattern.h"
#include "calyrex/eval/ifeval/python_json.h"
#include "calyrex/eval/ifeval/resources.h"
#include "calyrex/eval/ifeval/sentences.h"
#include "calyrex/eval/ifeval/word_tokens.h"

namespace calyrex::ifeval {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

int64_t for_each_golden(const std::string& name, const std::function<void(int64_t, const Json&)>& row) {
  int64_t rows = 0;
  for_each_json_line("tests/golden/ifeval/" + name, [&](int64_t line, Json json) {
    row(line, json);
    ++rows;
  });
  return rows;
}

TEST(IfevalGolden, PatternsCountAsInPython) {
  const int64_t rows = for_each_golden("patterns.jsonl", [](int64_t line, const Json& row) {
    const std::string pattern = row["pattern"].get<std::string>();
    const Case letter_case = row["ignore_case"].get<bool>() ? Case::kIgnore : Case::kSensitive;
    if (row["count"].is_null()) {
      EXPECT_THROW(Pattern(pattern, letter_case), Error) << "line " << line << ": " << pattern;
      return;
    }
    EXPECT_EQ(Pattern(pattern, letter_case).count(row["text"].get<std::string>(), kAll),
              row["count"].get<int64_t>())
        << "line " << line << ": " << pattern;
  });
  EXPECT_GT(rows, 300);
}

TEST(IfevalGolden, SentencesAndTokensAsInNltk) {
  const int64_t rows = for_each_golden("sentences.jsonl", [](int64_t line, const Json& row) {
    const Text text = decode_utf8(row["text"].get<std::string>());
    std::vector<std::string> sentences;
    for (const TextView sentence : split_sentences(english_punkt(), text))
      sentences.push_back(encode_utf8(sentence));
    EXPECT_EQ(sentences, row["sentences"].get<std::vector<std::string>>()) << "line " << line;
    std::vector<std::string> tokens;
    for (const Text& token : word_tokens(english_punkt(), text)) tokens.push_back(encode_utf8(token));
    EXPECT_EQ(tokens, row["tokens"].get<std::vector<std::string>>()) << "line " << line;
  });
  EXPECT_EQ(rows, 150);
}

TEST(IfevalGolden, LanguagesAsLangdetectWithSeedZero) {
  const int64_t rows = for_each_golden("languages.jsonl", [](int64_t line, const Json& row) {
    const Answer answer(decode_utf8(row["text"].get<std::string>()));
    EXPECT_EQ(answer.language(), row["language"].get<std::string>()) << "line " << line;
  });
  EXPECT_GT(rows, 50);
}

TEST(IfevalGolden, StringsAsInPython) {
  const int64_t rows = for_each_golden("strings.jsonl", [](int64_t line, const Json& row) {
    const Text text = decode_utf8(row["text"].get<std::string>());
    EXPECT_EQ(is_all_upper(text), row["upper"].get<bool>()) << "line " << line;
    EXPECT_EQ(is_all_lower(text), row["lower"].get<bool>()) << "line " << line;
    EXPECT_EQ(encode_utf8(lower(text)), row["lowered"].get<std::string>()) << "line " << line;
    EXPECT_EQ(encode_utf8(strip(text)), row["stripped"].get<std::string>()) << "line " << line;
    EXPECT_EQ(count_words(text), row["words"].get<int64_t>()) << "line " << line;
    EXPECT_EQ(is_python_json(text), row["json"].get<bool>()) << "line " << line;
  });
  EXPECT_EQ(rows, 250);
}

}  // namespace
}  // namespace calyrex::ifeval
