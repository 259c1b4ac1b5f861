// Answers that exist already, from a JSONL file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "calyrex/data/rule_rows.h"

namespace calyrex::data {

/// Lines {"id" or "key" or "prompt", "response"}, in any order, matched to the rows by id or by user text.
/// Returns one answer a row. Throws kInvalidArgument with file:line for a line that matches no row, matches
/// several, or answers one again, and with the file for rows that are left without an answer.
std::vector<std::string> read_answers(const std::filesystem::path& path, const std::vector<RuleRow>& rows);

}  // namespace calyrex::data
