// What the tasks of the IFEval family share: rows, verdicts, metrics.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/eval/core/task.h"
#include "calyrex/eval/ifeval/instruction.h"
#include "calyrex/eval/tasks/row_fields.h"

namespace calyrex::eval {

/// Longest answer, as lm-evaluation-harness has it for IFEval.
inline constexpr int64_t kIfevalTokens = 1280;

using Instructions = std::shared_ptr<const std::vector<ifeval::Instruction>>;

struct IfevalRow {
  std::string id;      // the row's key
  std::string prompt;  // the published one, constraints and all
  Instructions instructions;
  text::Messages messages;  // of rows that have them
};

/// Reads {"key", "prompt", "instruction_id_list", "kwargs", "messages"?}; errors name file, line and field.
/// What the instructions need besides is loaded.
IfevalRow read_ifeval_row(const RowFields& row);

/// A row's chat: a system and a user message, else kInvalidArgument.
const text::Messages& split_messages(const RowFields& row, const IfevalRow& parsed);

/// Verdict over one answer: scores prompt_level_{strict,loose}_acc (0 or 1), {strict,loose}_followed and
/// instructions (numbers); detail instructions, strict, loose in the row's order. Ungraded when a regular
/// expression of the data backtracks without end.
Verdict grade_ifeval(const Instructions& instructions, const std::string& answer);

/// prompt_level_*_acc and inst_level_*_acc. Instructions of one prompt are not independent, so their
/// intervals resample prompts; where no prompt has more than one, they are Wilson's.
Metrics ifeval_metrics(std::span<const Graded> graded);

/// "strict/keywords", "loose/keywords:existence", ...: shares by family and by id.
Metrics ifeval_metrics_by_instruction(std::span<const Graded> graded);

/// Rows of our own: the published form, and with the constraints apart in a system message.
std::string_view own_ifeval_rows();

}  // namespace calyrex::eval
