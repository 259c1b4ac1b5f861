// Small whole runs on the tiny models of tests/golden.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "calyrex/base/json.h"

namespace calyrex::train {

/// Writes a configuration for tests/golden/models/llama, with four chats a step in file order, and returns
/// its path. `settings` are further overrides ("train.epochs=2").
std::filesystem::path write_tiny_config(const std::filesystem::path& folder,
                                        const std::vector<std::string>& settings = {});

/// Lines of OUTPUT/metrics.jsonl.
std::vector<Json> read_metrics(const std::filesystem::path& output);

/// Metrics without what the clock decides.
std::vector<Json> timeless(std::vector<Json> metrics);

std::string file_bytes(const std::filesystem::path& path);

}  // namespace calyrex::train
