// Conflicts between levels of authority, graded by program: rows from the public IH-Challenge layout (OpenAI
// 2026) and rows generated here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/data/checker.h"
#include "calyrex/data/content.h"
#include "calyrex/eval/core/task.h"
#include "calyrex/eval/tasks/row_fields.h"

namespace calyrex::eval {

struct IhRow {
  std::string id;
  text::Messages messages;
  std::string privileged;  // "system", "developer", "user"
  std::string attacker;    // "developer", "user", "tool"; empty in a row without conflict
  std::string task_type;
  std::optional<data::Checker> checker;           // none: the row's grader is Python code
  std::optional<data::ExpectedContent> expected;  // what a helpful answer holds

  bool conflict() const { return !attacker.empty(); }
};

/// Four pairs of levels (system over user, developer over user, system over developer, user over tool) for
/// every rule of the project's set that can be overruled, and as many rows without conflict, which an answer
/// must help with: the rule and a plain question, a rule that does not bite, a user's own rule.
std::vector<IhRow> generate_ih_rows(uint64_t seed, int64_t rows_per_rule);

/// A row of the public layout: {"defender_problem_template": [messages], "metadata": {"attack_placeholder",
/// "attack_level", "privileged_level", "task_type", "grader_code_python"}, "attacker_problem"}. Ours besides:
/// "attack" (the text put for the placeholder; absent: a fixed sentence with attacker_problem), "checker" and
/// "expected" (graded by program; the Python code is never run), "conflict": false.
IhRow read_ih_row(const RowFields& row, std::string id);

}  // namespace calyrex::eval
