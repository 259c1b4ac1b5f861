// Strict and loose verdicts over the instructions of one prompt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calyrex/eval/ifeval/instruction.h"

namespace calyrex::ifeval {

/// One verdict an instruction, in order.
struct InstructionVerdicts {
  std::vector<Followed> strict;
  std::vector<Followed> loose;
};

/// strict: the response as it is; a blank one follows nothing. loose: the best of eight variants that are not
/// blank: without its first line, its last line, or both (then trimmed), each with and without asterisks. Any
/// bytes are allowed.
InstructionVerdicts grade_response(const std::vector<Instruction>& instructions, std::string_view response);

}  // namespace calyrex::ifeval
