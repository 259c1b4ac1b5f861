// Which texts of training rows stand in evaluation files: runs of words that both hold (Brown et al., 2020,
// appendix C).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "calyrex/base/json.h"

namespace calyrex::data {

/// Runs of `ngram` words of all texts of the files added. Words are folded (fold_text) runs of letters and
/// digits, so case, punctuation and spacing do not count; scripts without spaces count by character. An
/// evaluation text of fewer words, but at least kShortestText, is looked for as a whole.
class ContaminationIndex {
 public:
  static constexpr int64_t kShortestText = 8;

  explicit ContaminationIndex(int64_t ngram) : ngram_(ngram) {}

  /// Every text of a .jsonl or .json file, or every line of another one. Throws what reading it throws.
  void add_file(const std::filesystem::path& path);

  struct Match {
    size_t file = 0;    // index into files()
    std::string place;  // <evaluation file>:<line or element>
    std::string words;  // the run of words, folded
  };
  std::optional<Match> find(std::string_view text) const;
  /// In any text of a value.
  std::optional<Match> find_in(const Json& json) const;

  struct File {
    std::string path;
    int64_t texts = 0;  // long enough to be looked for
  };
  const std::vector<File>& files() const { return files_; }

 private:
  struct Place {
    uint32_t file = 0;
    uint32_t line = 0;
  };
  void add_json(const Json& json, Place place);
  void add_text(std::string_view text, Place place);

  int64_t ngram_;
  std::vector<File> files_;
  /// By length of the run: hash of its words -> where it was first seen.
  std::map<int64_t, std::unordered_map<uint64_t, Place>> runs_;
};

}  // namespace calyrex::data
