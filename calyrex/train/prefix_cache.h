// States below the first block, kept on disk: the backbone never changes, so a row's states are computed
// once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "calyrex/base/token.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::train {

/// Digest of a backbone's tensors: names, types, shapes, and their bytes (large tensors by samples spread
/// over them).
std::string backbone_digest(const weights::ModelSource& model);

/// One file of records {header, states}, appended and never changed; positional reads and writes instead of a
/// map, so that a full disk is an error code and not a signal. A record that a killed process left short is
/// cut off when the file is opened; one whose checksum does not match counts as absent. Not thread-safe; one
/// process at a time.
class PrefixCache {
 public:
  struct Options {
    std::filesystem::path folder;
    int64_t layer = 0;     // whose output (with no block after it) is kept
    int64_t width = 0;     // values of a token, bfloat16
    std::string identity;  // whatever the states depend on besides layer and tokens: backbone, dtype, threads
    int64_t budget_bytes = 0;
  };

  explicit PrefixCache(Options options);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;
  ~PrefixCache();

  int64_t layer() const { return options_.layer; }

  /// Reads a row's states, [tokens, width] bfloat16; false when they are not there.
  bool load(const std::vector<TokenId>& token_ids, std::span<std::byte> states);
  /// Keeps a row's states. Beyond the budget, or when the disk is full, nothing more is kept (logged once).
  void store(const std::vector<TokenId>& token_ids, std::span<const std::byte> states);

  struct Counts {
    int64_t hits = 0;
    int64_t misses = 0;
    int64_t bytes = 0;  // on disk
  };
  const Counts& counts() const { return counts_; }

 private:
  using Key = std::array<std::byte, 32>;
  struct Header {
    uint64_t magic = 0;
    uint64_t num_bytes = 0;
    uint64_t checksum = 0;
    Key key{};
  };

  void read_index();
  static Key key_of(const std::vector<TokenId>& token_ids);

  Options options_;
  std::filesystem::path path_;
  int descriptor_ = -1;
  bool full_ = false;
  std::map<Key, int64_t> offsets_;  // of the states
  Counts counts_;
};

}  // namespace calyrex::train
