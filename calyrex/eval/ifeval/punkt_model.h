// The learned parameters of a Punkt sentence splitter (Kiss and Strunk 2006).
#pragma once

#include <cstdint>
#include <filesystem>
#include <unordered_map>
#include <unordered_set>

#include "calyrex/eval/ifeval/python_text.h"

namespace calyrex::ifeval {

/// How a word type was seen in training, as bits of PunktModel::seen().
enum Orthography : int {
  kBeginUpper = 2,
  kMiddleUpper = 4,
  kUnknownUpper = 8,
  kBeginLower = 16,
  kMiddleLower = 32,
  kUnknownLower = 64,
  kAnyUpper = kBeginUpper | kMiddleUpper | kUnknownUpper,
  kAnyLower = kBeginLower | kMiddleLower | kUnknownLower,
};

class PunktModel {
 public:
  /// Reads lines of tab-separated UTF-8: `abbreviation WORD`, `starter WORD`, `collocation FIRST SECOND`,
  /// `seen BITS WORD`. kNotFound when the file is absent, kCorruptData with file:line for anything else.
  static PunktModel read(const std::filesystem::path& path);

  bool is_abbreviation(TextView word) const { return abbreviations_.contains(Text(word)); }
  bool is_starter(TextView word) const { return starters_.contains(Text(word)); }
  bool is_collocation(TextView first, TextView second) const;
  /// Orthography bits of a word type; 0 when it was not seen.
  int seen(TextView word) const;

 private:
  void add_line(std::string_view line);

  std::unordered_set<Text> abbreviations_;
  std::unordered_set<Text> starters_;
  std::unordered_set<Text> collocations_;  // joined by a tab, which no word holds
  std::unordered_map<Text, int> seen_;
};

}  // namespace calyrex::ifeval
