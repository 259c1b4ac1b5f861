// The rule data set on disk: train.jsonl, dev.jsonl, test.jsonl and manifest.json.
#pragma once

#include <filesystem>

#include "calyrex/base/json.h"
#include "calyrex/data/row.h"
#include "calyrex/data/rule_rows.h"

namespace calyrex::data {

/// Builds and writes the set into `folder`, which appears whole or not at all and replaces an older one of
/// that name. Returns the manifest: {"kind", "seed", "format", "options", "rules": [...], "files": {name:
/// {"rows", "sha256", "sorts"}}}. Equal options give equal bytes.
Json write_rule_data(const RuleDataOptions& options, RowFormat format, const std::filesystem::path& folder);

/// Rows of one of the files; errors name file and row.
std::vector<RuleRow> read_rule_rows(const std::filesystem::path& path);

}  // namespace calyrex::data
