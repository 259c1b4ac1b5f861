// Words as Punkt sees them: punctuation is cut off, final periods stay.
#pragma once

#include <vector>

#include "calyrex/eval/ifeval/python_text.h"

namespace calyrex::ifeval {

/// Marks that never stand within a word: ) " ; } ] * : @ ' ( { [ ? !
bool is_punkt_outside_word(char32_t c);

/// Runs of hyphens or periods (also ". . ."), words up to a mark that cannot be part of one, single marks.
/// `line` holds no line feed; the pieces are views into it.
std::vector<TextView> split_punkt_words(TextView line);

}  // namespace calyrex::ifeval
