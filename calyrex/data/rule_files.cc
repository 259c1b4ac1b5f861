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

Json write_rows(const std::vector<RuleRow>& rows, RowFormat format, const std::filesystem::path& path) {
  std::string text;
  for (const RuleRow& row : rows) text += to_json_line(row_to_json(to_chat_row(row), format)) + "\n";
  write_file_atomically(path, text);
  Json entry = Json::object();
  entry["rows"] = rows.size();
  entry["sha256"] = sha256_hex(text);
  entry["sorts"] = count_sorts(rows);
  return entry;
}

}  // namespace

Json write_rule_data(const RuleDataOptions& options, RowFormat format, const std::filesystem::path& folder) {
  const RuleData data = build_rule_data(options);
  AtomicDirectory directory(folder);
  Json manifest = Json::object();
  manifest["kind"] = "rules";
  manifest["seed"] = options.seed;
  manifest["format"] = to_string(format);
  manifest["options"]["rows"] = options.train_rows;
  manifest["options"]["dev_rows"] = options.dev_rows_per_rule;
  manifest["options"]["test_rows"] = options.test_rows_per_rule;
  manifest["options"]["overrule_rows"] = options.test_overrule_rows_per_rule;
  manifest["rules"] = describe_rules(options.rules);
  manifest["files"]["train.jsonl"] = write_rows(data.train, format, directory.staging() / "train.jsonl");
  manifest["files"]["dev.jsonl"] = write_rows(data.dev, format, directory.staging() / "dev.jsonl");
  manifest["files"]["test.jsonl"] = write_rows(data.test, format, directory.staging() / "test.jsonl");
  write_file_atomically(directory.staging() / "manifest.json", to_json_text(manifest));
  directory.commit_files("manifest.json");
  return manifest;
}

std::vector<RuleRow> read_rule_rows(const std::filesystem::path& path) {
  std::vector<RuleRow> rows;
  with_context(path.string(),
               [&] { for_each_row(path, [&](const ChatRow& row) { rows.push_back(from_chat_row(row)); }); });
  return rows;
}

}  // namespace calyrex::data
