// The checkers by id; instruction.h is what others use.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "calyrex/eval/ifeval/arguments.h"
#include "calyrex/eval/ifeval/instruction.h"

namespace calyrex::ifeval {

using Check = std::function<Followed(const Answer&)>;
using CheckerTable = std::map<std::string, std::function<Check(Arguments&)>, std::less<>>;

/// Keywords, letters, lengths.
void add_word_checkers(CheckerTable& table);
/// Formats and the content that must be there.
void add_format_checkers(CheckerTable& table);
/// Language, case, combinations, start and end, punctuation.
void add_whole_text_checkers(CheckerTable& table);

}  // namespace calyrex::ifeval
