// SQuAD: what of an answer is scored.
#pragma once

#include <string>
#include <string_view>

namespace calyrex::eval {

/// The first line with text in it; nothing when that says "unanswerable", the word the instruction gives.
std::string squad_prediction(std::string_view answer);

}  // namespace calyrex::eval
