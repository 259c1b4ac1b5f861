// What several training runs of one process have in common: tokenised rows, and states below the first block.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "calyrex/train/dataset.h"

namespace calyrex::train {

/// Rows that are encoded once and read by every run with the same data, template and limits; the least
/// recently used ones go first. Not thread-safe.
class EncodedRowsCache {
 public:
  using Make = std::function<std::shared_ptr<const EncodedRows>()>;
  /// `key` names all that the rows depend on.
  std::shared_ptr<const EncodedRows> get(const std::string& key, const Make& make);

 private:
  static constexpr size_t kKept = 4;
  std::deque<std::pair<std::string, std::shared_ptr<const EncodedRows>>> entries_;  // newest first
};

/// States that outlive a run. Every run whose first block is not earlier than `layer` may use them; the layer
/// is part of a run's arithmetic, because the states are rounded there.
struct PrefixStates {
  std::filesystem::path folder;
  int64_t layer = 0;
  int64_t budget_bytes = 0;  // of this layer's file
};

/// What a run uses together with others; both may be absent.
struct SharedWork {
  EncodedRowsCache* rows = nullptr;
  std::optional<PrefixStates> prefix_states = {};  // instead of the run's own, with train.prefix_cache_gib
};

}  // namespace calyrex::train
