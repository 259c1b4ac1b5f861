// Prose of our own that says nothing of rules: what lies between a system message and a question.
#pragma once

#include <cstdint>
#include <string>

#include "calyrex/base/random.h"

namespace calyrex::data {

/// Bytes of this prose that make a token of a common English vocabulary (SmolLM2's, measured).
inline constexpr double kFillerBytesPerToken = 4.95;

/// Paragraphs of plain sentences, about `tokens` tokens long by the figure above; whole sentences.
std::string filler_text(int64_t tokens, RandomStream random);

}  // namespace calyrex::data
