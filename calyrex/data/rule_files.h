// The rule data set on disk: train.jsonl, dev.jsonl, test.jsonl and manifest.json.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/data/row.h"
#include "calyrex/data/rule_rows.h"

namespace calyrex::data {

/// The set before it is written.
struct RuleFileSet {
  Json manifest;
  std::vector<std::pair<std::string, std::string>> files;  // name, text
};

/// Equal options give equal bytes.
RuleFileSet make_rule_files(const RuleDataOptions& options, RowFormat format);

/// Writes the set into `folder`, which appears whole or not at all and replaces an older one of
/// that name. The manifest: {"kind", "seed", "format", "options", "rules": [...], "files": {name:
/// {"rows", "sha256", "sorts"}}}.
void write_rule_files(const RuleFileSet& set, const std::filesystem::path& folder);

/// Makes and writes it; returns the manifest.
Json write_rule_data(const RuleDataOptions& options, RowFormat format, const std::filesystem::path& folder);

/// Rows of one of the files; errors name file and row.
std::vector<RuleRow> read_rule_rows(const std::filesystem::path& path);

}  // namespace calyrex::data
