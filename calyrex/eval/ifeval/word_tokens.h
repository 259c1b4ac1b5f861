// Word tokens as nltk.word_tokenize (3.8) makes them: Punkt sentences, each cut by rules of the Penn
// Treebank.
#pragma once

#include <vector>

#include "calyrex/eval/ifeval/punkt_model.h"

namespace calyrex::ifeval {

/// Tokens of one sentence. Double quotes come back as `` and ''.
std::vector<Text> treebank_tokens(TextView sentence);

/// Tokens of all sentences of a text. Linear in its length.
std::vector<Text> word_tokens(const PunktModel& model, TextView text);

}  // namespace calyrex::ifeval
