// Base and adapter on the same test rows: verdicts, tables, examples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/data/grader.h"

namespace calyrex::data {

/// Answers and verdicts are in the rows' order.
struct Comparison {
  std::vector<RuleRow> rows;
  std::vector<std::string> base_answers;
  std::vector<std::string> adapter_answers;
  std::vector<Verdict> base_verdicts;
  std::vector<Verdict> adapter_verdicts;
  RuleReport base;
  RuleReport adapter;
  Estimate difference;  // adapter minus base, joint measure, mean over trained rules, paired
};

/// Grades both; `seed` is the bootstrap's.
Comparison compare_answers(std::vector<RuleRow> rows, std::vector<std::string> base_answers,
                           std::vector<std::string> adapter_answers, uint64_t seed);

/// Rows to show: the first row of trained rules spread evenly over the catalogue, whatever the answers say.
std::vector<size_t> pick_examples(const std::vector<RuleRow>& rows, size_t count);

/// System message, question, both answers with their verdicts, for a terminal.
std::string format_examples(const Comparison& comparison, size_t count);

/// {"base": report, "adapter": report, "difference": estimate, "examples": [...]}
Json comparison_to_json(const Comparison& comparison, size_t num_examples);

/// One line a row: {"id", "rule", "sort", "system", "user", "base", "adapter", verdicts}.
void write_answers(const Comparison& comparison, const std::filesystem::path& path);

}  // namespace calyrex::data
