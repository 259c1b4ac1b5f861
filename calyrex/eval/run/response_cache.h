// Replies by request digest, kept in a file, so that nothing is asked twice.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>

#include "calyrex/base/file.h"
#include "calyrex/eval/core/task.h"

namespace calyrex::eval {

/// A JSONL file {"key", "reply"} that grows by a line a reply. For one thread; one process at a time.
class ResponseCache {
 public:
  /// Reads what is there. Throws kCorruptData with file:line.
  explicit ResponseCache(std::filesystem::path path);

  std::optional<Reply> find(const std::string& key) const;
  void add(const std::string& key, const Reply& reply);

 private:
  std::filesystem::path path_;
  std::unordered_map<std::string, Reply> replies_;
  std::optional<LineWriter> writer_;  // opened by the first add()
};

}  // namespace calyrex::eval
