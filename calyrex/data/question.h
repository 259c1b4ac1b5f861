// Questions of the project's own making, each with the content that a right answer holds. Most supply it in
// the question itself, so that a small model can be asked for form and content at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/random.h"
#include "calyrex/data/content.h"

namespace calyrex::data {

enum class Split { kTrain, kDev, kTest };
std::string_view split_name(Split split);  // "train", "dev", "test"

enum class QuestionKind {
  kWord,      // the answer is one word: a fact or read from the question
  kPhrase,    // a few words: the meaning of a made-up word
  kSentence,  // a sentence: rewriting
  kNumber,    // counts and sums, numbers up to 20
  kMeasure,   // a length or weight given without its unit
  kList,      // three or four items; the plain answer has commas
};

struct Question {
  std::string id = {};  // "capital:france": family and instance; decides the split
  QuestionKind kind = QuestionKind::kWord;
  std::string prompt = {};
  std::string title = {};   // a few words on what it is about
  std::string answer = {};  // the shortest right answer; of a list, the items with commas
  std::string plain = {};   // what an assistant without rules says: one sentence
  std::string topic = {};   // a word of `plain` that is no part of the answer, empty when there is none
  std::string without_topic = {};       // a sentence with the answer and without `topic`
  std::string spelled = {};             // kNumber: `plain` with the numbers as words
  std::vector<std::string> items = {};  // kList
  ExpectedContent expected = {};
};

/// A seeded question of one of the kinds whose id belongs to `split` (a fixed hash: about 80/10/10).
Question draw_question(const std::vector<QuestionKind>& kinds, Split split, RandomStream& random);

/// The split an id belongs to; the same for every seed, so that no run trains on another's test questions.
Split split_of(std::string_view question_id);

/// "twelve" for 12; 0 to 20.
std::string number_word(int64_t number);

/// "a, b, and c" and "a and b and c".
std::string join_with_commas(const std::vector<std::string>& items);
std::string join(const std::vector<std::string>& items, std::string_view separator);

/// Replaces each "{name}" of `pattern` (lower-case letters and _; other braces stay); a name that is absent
/// is a bug (kInternal).
struct Slot {
  std::string_view name;
  std::string_view value;
};
std::string fill(std::string_view pattern, const std::vector<Slot>& slots);

}  // namespace calyrex::data
