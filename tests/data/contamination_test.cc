#include "calyrex/data/contamination.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "tests/data/folder_test.h"

namespace calyrex::data {
namespace {

class Contamination : public FolderTest {};

constexpr const char* kQuestion =
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many in May.";

TEST_F(Contamination, FindsThirteenWordsInARow) {
  ContaminationIndex index(13);
  index.add_file(write("test.jsonl", std::string("{\"id\": 1}\n{\"question\": \"") + kQuestion + "\"}\n"));
  EXPECT_EQ(index.files()[0].texts, 1);
  const auto match = index.find(
      "Solve: natalia SOLD clips to 48 of her friends -- in April; and then! She (Show your work.)");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->place, (folder_ / "test.jsonl").string() + ":2");
  EXPECT_EQ(match->words, "natalia sold clips to 48 of her friends -- in april; and then! she");
  // Twelve words of it, and thirteen in another order.
  EXPECT_FALSE(index.find("Natalia sold clips to 48 of her friends in April, and then"));
  EXPECT_FALSE(index.find("sold Natalia clips to 48 of her friends in April, and then she"));
  EXPECT_TRUE(index.find("x Natalia sold clips to 48 of her friends in April, and then she"));
}

TEST_F(Contamination, ShorterTextsCountAsAWhole) {
  ContaminationIndex index(13);
  index.add_file(write("a.csv", "What is the name of the highest mountain?\nToo short to be found\n"));
  EXPECT_EQ(index.files()[0].texts, 1);
  EXPECT_TRUE(index.find("Tell me: what is the name of the highest mountain"));
  EXPECT_FALSE(index.find("what is the name of the highest tower"));
  EXPECT_FALSE(index.find("Too short to be found"));
}

TEST_F(Contamination, ReadsListsAndNestedTexts) {
  ContaminationIndex index(8);
  index.add_file(
      write("a.json", R"([{"x": 1}, {"deep": [{"text": "one two three four five six seven eight"}]}])"));
  index.add_file(
      write("b.json", R"({"data": ["nine ten eleven twelve thirteen fourteen fifteen sixteen"]})"));
  EXPECT_EQ(index.find("one two three four five six seven eight")->place,
            (folder_ / "a.json").string() + ":2");
  EXPECT_EQ(index.find("Nine ten eleven twelve thirteen fourteen fifteen sixteen")->file, 1u);
}

TEST_F(Contamination, ScriptsWithoutSpacesCountByCharacter) {
  ContaminationIndex index(13);
  index.add_file(write("zh.txt", "请把下面的句子翻译成英文并且解释\n"));
  EXPECT_TRUE(index.find("你好,请把下面的句子翻译成英文并且。"));
  EXPECT_FALSE(index.find("请把下面的句子翻译成"));
}

TEST_F(Contamination, BrokenFilesNameTheLine) {
  ContaminationIndex index(13);
  EXPECT_THROW(index.add_file(folder_ / "none.jsonl"), Error);
  EXPECT_THROW(index.add_file(write("b.jsonl", "{\"a\": \n")), Error);
}

}  // namespace
}  // namespace calyrex::data
