// The language profiles of langdetect 1.0.9: how often each short piece of text occurs in each language.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "calyrex/base/file.h"
#include "calyrex/eval/ifeval/python_text.h"

namespace calyrex::ifeval {

/// One language's count of a gram.
struct GramCount {
  uint32_t language = 0;
  uint32_t count = 0;
};

/// A mapped file of little-endian numbers, 32 bits each but for the keys:
///     "CLXLANG1"; numbers of languages, grams, counts, characters; then, without gaps:
///     keys of the grams, 64 bits, ascending: 21 bits a character, the last one lowest
///     where each gram's counts begin, and where the last one's end
///     counts: language, count
///     Chinese characters, ascending, each with its representative
///     totals of 1-, 2- and 3-grams, for each language
///     names of the languages, 8 bytes each, filled up with zeros
class LanguageProfiles {
 public:
  /// kNotFound when the file is absent, kCorruptData when anything in it is out of bounds.
  static LanguageProfiles open(const std::filesystem::path& path);

  const std::vector<std::string>& languages() const { return languages_; }
  /// Occurrences of all grams of `length` characters (1 to 3) in a language's training text.
  uint32_t total(uint32_t language, size_t length) const { return totals_[3 * language + length - 1]; }
  /// Counts of a gram of 1 to 3 characters; empty when no language has it.
  std::span<const GramCount> counts(TextView gram) const;
  /// The character that stands for `c` in the profiles.
  char32_t representative(char32_t c) const;

 private:
  struct Representative {
    uint32_t from = 0;
    uint32_t to = 0;
  };

  explicit LanguageProfiles(MappedFile file) : file_(std::move(file)) {}
  void parse();

  MappedFile file_;
  std::vector<std::string> languages_;
  std::span<const uint32_t> totals_;
  std::span<const uint64_t> keys_;
  std::span<const uint32_t> starts_;
  std::span<const GramCount> counts_;
  std::span<const Representative> representatives_;
};

}  // namespace calyrex::ifeval
