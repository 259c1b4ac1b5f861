// Sentences as NLTK 3.8's PunktSentenceTokenizer cuts them (Kiss and Strunk 2006).
#pragma once

#include <vector>

#include "calyrex/eval/ifeval/punkt_model.h"

namespace calyrex::ifeval {

/// The sentences of a text, without the white space between them; views into `text`. Linear in its length.
std::vector<TextView> split_sentences(const PunktModel& model, TextView text);

}  // namespace calyrex::ifeval
