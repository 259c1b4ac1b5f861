#include "calyrex/eval/ifeval/answer.h"

#include <algorithm>

#include "calyrex/eval/ifeval/language_detector.h"
#include "calyrex/eval/ifeval/resources.h"
#include "calyrex/eval/ifeval/sentences.h"
#include "calyrex/eval/ifeval/word_tokens.h"

namespace calyrex::ifeval {

const std::string& Answer::utf8() const {
  if (!utf8_) utf8_ = encode_utf8(text_);
  return *utf8_;
}

const Text& Answer::lowered() const {
  if (!lowered_) lowered_ = lower(text_);
  return *lowered_;
}

const std::string& Answer::language() const {
  if (!language_) language_ = detect_language(language_profiles(), text_).value_or("");
  return *language_;
}

int64_t Answer::num_sentences() const {
  return static_cast<int64_t>(split_sentences(english_punkt(), text_).size());
}

int64_t Answer::num_capital_tokens() const {
  const std::vector<Text> tokens = word_tokens(english_punkt(), text_);
  return std::count_if(tokens.begin(), tokens.end(), is_all_upper);
}

}  // namespace calyrex::ifeval
