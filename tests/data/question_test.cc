#include "calyrex/data/question.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "calyrex/base/error.h"

namespace calyrex::data {
namespace {

using enum QuestionKind;

const std::vector<QuestionKind> kAllKinds = {kWord, kPhrase, kSentence, kNumber, kMeasure, kList};

std::vector<Question> draw_many(Split split, int count, uint64_t seed = 1) {
  RandomStream random(seed, "questions");
  std::vector<Question> questions;
  for (int i = 0; i < count; ++i) questions.push_back(draw_question(kAllKinds, split, random));
  return questions;
}

TEST(Question, PlainAnswerHoldsTheExpectedContent) {
  for (const Question& question : draw_many(Split::kTrain, 3000)) {
    EXPECT_TRUE(content_present(question.expected, question.plain)) << question.id << ": " << question.plain;
    EXPECT_TRUE(content_present(question.expected, question.answer))
        << question.id << ": " << question.answer;
  }
}

TEST(Question, SentenceWithoutTopicHoldsTheContentAndNotTheTopic) {
  for (const Question& question : draw_many(Split::kTrain, 3000)) {
    if (question.topic.empty()) continue;
    const ExpectedContent topic = expect_any({question.topic});
    EXPECT_TRUE(content_present(topic, question.plain)) << question.id;
    EXPECT_FALSE(content_present(topic, question.without_topic)) << question.id;
    EXPECT_TRUE(content_present(question.expected, question.without_topic)) << question.id;
  }
}

TEST(Question, ThousandsOfInstances) {
  std::map<std::string, std::set<std::string>> families;
  for (const Question& question : draw_many(Split::kTrain, 30000)) {
    families[question.id.substr(0, question.id.find(':'))].insert(question.id);
  }
  size_t instances = 0;
  for (const auto& [family, ids] : families) instances += ids.size();
  EXPECT_GE(families.size(), 12u);
  EXPECT_GT(instances, 5000u);
}

TEST(Question, SplitsShareNoInstance) {
  std::set<std::string> train;
  for (const Question& question : draw_many(Split::kTrain, 5000, /*seed=*/1)) train.insert(question.id);
  for (const Question& question : draw_many(Split::kTest, 2000, /*seed=*/2)) {
    EXPECT_EQ(train.count(question.id), 0u) << question.id;
    EXPECT_EQ(split_of(question.id), Split::kTest);
  }
}

TEST(Question, TestHasEveryKind) {
  for (const Split split : {Split::kDev, Split::kTest}) {
    std::set<QuestionKind> kinds;
    for (const Question& question : draw_many(split, 500)) kinds.insert(question.kind);
    EXPECT_EQ(kinds.size(), kAllKinds.size());
  }
}

TEST(Question, ListsHaveCommasAndDifferentItems) {
  RandomStream random(3, "lists");
  for (int i = 0; i < 500; ++i) {
    const Question question = draw_question({kList}, Split::kTrain, random);
    EXPECT_NE(question.plain.find(", and "), std::string::npos);
    const std::set<std::string> items(question.items.begin(), question.items.end());
    EXPECT_EQ(items.size(), question.items.size());
    EXPECT_GE(items.size(), 3u);
  }
}

TEST(Question, FillReplacesSlotsAndKeepsOtherBraces) {
  EXPECT_EQ(fill("{a} {\"x\": {b}} {A}", {{"a", "1"}, {"b", "{a}"}}), "1 {\"x\": {a}} {A}");
  EXPECT_THROW(fill("{missing}", {}), Error);
}

TEST(Question, JoinsItems) {
  EXPECT_EQ(join_with_commas({"a", "b", "c"}), "a, b, and c");
  EXPECT_EQ(join({"a", "b"}, " and "), "a and b");
  EXPECT_EQ(number_word(12), "twelve");
}

}  // namespace
}  // namespace calyrex::data
