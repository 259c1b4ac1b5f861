#include "calyrex/data/rule_files.h"

#include <algorithm>
#include <utility>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/base/sha256.h"
#include "calyrex/data/rule.h"

namespace calyrex::data {
namespace {

Json count_sorts(const std::vector<RuleRow>& rows) {
  Json counts = Json::object();
  for (const RuleRow& row : rows) {
    const std::string sort(sort_name(row.sort));
    counts[sort] = counts.value(sort, int64_t{0}) + 1;
  }
  return counts;
}

Json describe_rules(const std::vector<std::string>& names) {
  Json rules = Json::array();
  for (const Rule& rule : all_rules()) {
    if (!names.empty() && std::find(names.begin(), names.end(), rule.name) == names.end()) continue;
    Json entry = Json::object();
    entry["name"] = rule.name;
    entry["label"] = rule.label;
    entry["trained"] = rule.trained();
    entry["wordings"]["train"] = rule.wordings.train.size();
    entry["wordings"]["dev"] = rule.wordings.dev.size();
    entry["wordings"]["test"] = rule.wordings.test.size();
    rules.push_back(std::move(entry));
  }
  return rules;
}

std::string to_lines(const std::vector<RuleRow>& rows, RowFormat format) {
  std::string text;
  for (const RuleRow& row : rows) text += to_json_line(row_to_json(to_chat_row(row), format)) + "\n";
  return text;
}

Json describe_file(const std::vector<RuleRow>& rows, const std::string& text) {
  Json entry = Json::object();
  entry["rows"] = rows.size();
  entry["sha256"] = sha256_hex(text);
  entry["sorts"] = count_sorts(rows);
  return entry;
}

}  // namespace

RuleFileSet make_rule_files(const RuleDataOptions& options, RowFormat format) {
  const RuleData data = build_rule_data(options);
  RuleFileSet set;
  Json& manifest = set.manifest;
  manifest["kind"] = "rules";
  manifest["seed"] = options.seed;
  manifest["format"] = to_string(format);
  manifest["options"]["rows"] = options.train_rows;
  manifest["options"]["dev_rows"] = options.dev_rows_per_rule;
  manifest["options"]["test_rows"] = options.test_rows_per_rule;
  manifest["options"]["overrule_rows"] = options.test_overrule_rows_per_rule;
  manifest["rules"] = describe_rules(options.rules);
  for (const auto& [name, rows] :
       {std::pair("train.jsonl", &data.train), {"dev.jsonl", &data.dev}, {"test.jsonl", &data.test}}) {
    set.files.emplace_back(name, to_lines(*rows, format));
    manifest["files"][name] = describe_file(*rows, set.files.back().second);
  }
  return set;
}

void write_rule_files(const RuleFileSet& set, const std::filesystem::path& folder) {
  AtomicDirectory directory(folder);
  for (const auto& [name, text] : set.files) write_file_atomically(directory.staging() / name, text);
  write_file_atomically(directory.staging() / "manifest.json", to_json_text(set.manifest));
  directory.commit_files("manifest.json");
}

Json write_rule_data(const RuleDataOptions& options, RowFormat format, const std::filesystem::path& folder) {
  RuleFileSet set = make_rule_files(options, format);
  write_rule_files(set, folder);
  return std::move(set.manifest);
}

std::vector<RuleRow> read_rule_rows(const std::filesystem::path& path) {
  std::vector<RuleRow> rows;
  with_context(path.string(),
               [&] { for_each_row(path, [&](const ChatRow& row) { rows.push_back(from_chat_row(row)); }); });
  return rows;
}

}  // namespace calyrex::data
