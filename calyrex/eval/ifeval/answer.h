// An answer under check, with what several checkers derive from it computed once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calyrex/eval/ifeval/python_text.h"

namespace calyrex::ifeval {

/// Not thread-safe: derived values are computed when first asked for.
class Answer {
 public:
  explicit Answer(Text text) : text_(std::move(text)) {}

  const Text& text() const { return text_; }
  const std::string& utf8() const;
  const Text& lowered() const;
  /// langdetect's code; "" when the text has no features.
  const std::string& language() const;
  int64_t num_words() const { return count_words(text_); }
  int64_t num_sentences() const;
  /// Word tokens all in capitals.
  int64_t num_capital_tokens() const;

 private:
  Text text_;
  mutable std::optional<std::string> utf8_;
  mutable std::optional<Text> lowered_;
  mutable std::optional<std::string> language_;
};

}  // namespace calyrex::ifeval
