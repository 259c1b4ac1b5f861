// A mixture of chats from several files: weighted, without duplicates and evaluation texts, with a system
// message for a chosen share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/data/mix_config.h"
#include "calyrex/text/chat_encoder.h"

namespace calyrex::data {

/// What became of the rows of one source.
struct MixSourceCounts {
  std::string name;
  int64_t read = 0;
  int64_t unusable = 0;  // values that hold no chat to train on
  int64_t too_long = 0;
  int64_t unanswered = 0;  // the last message is no answer, or a shorter one than asked for
  int64_t contaminated = 0;
  int64_t duplicates = 0;
  int64_t available = 0;  // what is left
  int64_t taken = 0;
};

struct MixSystemCounts {
  int64_t own = 0;    // came with one
  int64_t moved = 0;  // the instruction was moved
  int64_t added = 0;  // a text of the list
};

/// A row that was left out for what an evaluation file holds.
struct ContaminatedRow {
  std::string source;  // <file>:<line>
  std::string place;   // <evaluation file>:<line>
  std::string words;
};

struct EvaluationFile {
  std::string path;
  int64_t texts = 0;
  int64_t rows_removed = 0;
};

struct Mix {
  std::vector<ChatRow> rows;  // in their final order; `fields` holds "source"
  std::vector<MixSourceCounts> sources;
  MixSystemCounts system;
  std::vector<EvaluationFile> evaluation_files;
  std::vector<ContaminatedRow> contaminated;
};

/// Reads, filters and draws. `encoder` counts tokens; needed with limits.max_tokens only. Errors of the files
/// name file and line.
Mix build_mix(const MixConfig& config, const text::ChatEncoder* encoder);

/// Rows of each source so that the sum is `total` (or all there is), in proportion to the weights; a source
/// that has fewer gives all, and the others share the rest.
std::vector<int64_t> share_rows(int64_t total, const std::vector<double>& weights,
                                const std::vector<int64_t>& available);

/// What two rows that count as the same have in common.
std::string row_key(const ChatRow& row, Deduplicate how);

/// Writes train.jsonl, dev.jsonl (with dev_rows), contaminated.jsonl (with evaluation files) and
/// manifest.json. Returns the manifest. Other files of the folder stay.
Json write_mix(const MixConfig& config, const Mix& mix, const std::filesystem::path& folder);

}  // namespace calyrex::data
