#include "calyrex/data/comparison.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/data/rule.h"

namespace calyrex::data {
namespace {

Json verdict_to_json(const Verdict& verdict) {
  Json json = Json::object();
  json["rule_kept"] = verdict.rule_kept;
  json["content"] = verdict.content_present;
  return json;
}

Json answer_to_json(const std::string& answer, const Verdict& verdict) {
  Json json = Json::object();
  json["answer"] = answer;
  json.update(verdict_to_json(verdict));
  return json;
}

Json row_to_json(const Comparison& comparison, size_t index) {
  const RuleRow& row = comparison.rows[index];
  Json json = Json::object();
  json["id"] = row.id;
  json["sort"] = sort_name(row.sort);
  json["rule"] = row.rule;
  json["system"] = row.system;
  json["user"] = row.user;
  json["base"] = answer_to_json(comparison.base_answers[index], comparison.base_verdicts[index]);
  json["adapter"] = answer_to_json(comparison.adapter_answers[index], comparison.adapter_verdicts[index]);
  return json;
}

std::string indented(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "           ";
  }
  return result;
}

std::string format_answer(std::string_view name, const std::string& answer, const Verdict& verdict) {
  return fmt::format("  {:<8} {}\n           ({}, {})\n", name, indented(answer),
                     verdict.rule_kept ? "rule kept" : "rule broken",
                     verdict.content_present ? "content there" : "content missing");
}

}  // namespace

Comparison compare_answers(std::vector<RuleRow> rows, std::vector<std::string> base_answers,
                           std::vector<std::string> adapter_answers, uint64_t seed) {
  Comparison comparison{.rows = std::move(rows),
                        .base_answers = std::move(base_answers),
                        .adapter_answers = std::move(adapter_answers)};
  comparison.base_verdicts = grade_answers(comparison.rows, comparison.base_answers);
  comparison.adapter_verdicts = grade_answers(comparison.rows, comparison.adapter_answers);
  comparison.base = summarize(comparison.rows, comparison.base_verdicts);
  comparison.adapter = summarize(comparison.rows, comparison.adapter_verdicts);
  comparison.difference =
      joint_difference(comparison.rows, comparison.base_verdicts, comparison.adapter_verdicts, seed);
  return comparison;
}

std::vector<size_t> pick_examples(const std::vector<RuleRow>& rows, size_t count) {
  std::vector<size_t> firsts;
  for (const Rule& rule : all_rules()) {
    if (!rule.trained()) continue;
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const RuleRow& row) {
      return row.sort == RowSort::kRule && row.rule == rule.name;
    });
    if (found != rows.end()) firsts.push_back(static_cast<size_t>(found - rows.begin()));
  }
  std::vector<size_t> picked;
  const size_t taken = std::min(count, firsts.size());
  for (size_t i = 0; i < taken; ++i) picked.push_back(firsts[i * firsts.size() / taken]);
  return picked;
}

std::string format_examples(const Comparison& comparison, size_t count) {
  std::string text;
  for (const size_t index : pick_examples(comparison.rows, count)) {
    const RuleRow& row = comparison.rows[index];
    text += fmt::format("{}  system   {}\n  user     {}\n", text.empty() ? "" : "\n", indented(row.system),
                        indented(row.user));
    text += format_answer("base", comparison.base_answers[index], comparison.base_verdicts[index]);
    text += format_answer("adapter", comparison.adapter_answers[index], comparison.adapter_verdicts[index]);
  }
  return text;
}

Json comparison_to_json(const Comparison& comparison, size_t num_examples) {
  Json json = Json::object();
  json["base"] = report_to_json(comparison.base);
  json["adapter"] = report_to_json(comparison.adapter);
  json["difference"] = estimate_to_json(comparison.difference);
  json["examples"] = Json::array();
  for (const size_t index : pick_examples(comparison.rows, num_examples)) {
    json["examples"].push_back(row_to_json(comparison, index));
  }
  return json;
}

void write_answers(const Comparison& comparison, const std::filesystem::path& path) {
  std::string text;
  for (size_t i = 0; i < comparison.rows.size(); ++i) text += to_json_line(row_to_json(comparison, i)) + "\n";
  write_file_atomically(path, text);
}

}  // namespace calyrex::data
