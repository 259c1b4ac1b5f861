// How much of one text stands in another: leaks of system messages.
#pragma once

#include <cstdint>
#include <string_view>

namespace calyrex::eval {

/// Words are counted as ROUGE does: runs of letters and digits (and their marks), in lower case; every
/// character of a script without spaces is a word of its own. For ASCII text they are those of Google's
/// rouge_score without stemming.
struct Overlap {
  double rouge_l_recall = 0.0;  // longest common subsequence / words of the reference (Lin 2004)
  int64_t longest_run = 0;      // words of the longest run that stands in both
  int64_t reference_words = 0;
};

/// Overlap of an answer with a reference; 0 for a reference without words. Time: words of the answer times
/// words of the reference / 64 (bit-parallel; Hyyro 2004), so it is bounded when the reference is.
Overlap text_overlap(std::string_view answer, std::string_view reference);

}  // namespace calyrex::eval
