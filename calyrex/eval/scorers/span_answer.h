// Extractive answers (SQuAD): equality and word overlap after the set's own normalisation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace calyrex::eval {

/// Lower case, without ASCII punctuation and the words a, an, the, single spaces. Linear time.
std::string normal_answer(std::string_view text);

struct SpanScore {
  double exact_match = 0.0;
  double f1 = 0.0;  // of bags of words
};

/// The best of each measure over the accepted answers. No accepted answer, or only ones that normalise to
/// nothing, means "unanswerable": then only an empty answer scores, with 1 for both measures.
SpanScore score_span(std::string_view answer, const std::vector<std::string>& accepted);

}  // namespace calyrex::eval
