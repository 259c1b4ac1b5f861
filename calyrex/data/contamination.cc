#include "calyrex/data/contamination.h"

#include <algorithm>

#include <fmt/format.h>

#include "calyrex/base/file.h"
#include "calyrex/data/row.h"
#include "calyrex/data/unicode.h"

namespace calyrex::data {
namespace {

constexpr size_t kMaxFileBytes = size_t{2} << 30;
constexpr size_t kMaxLineBytes = size_t{64} << 20;

struct Word {
  uint64_t hash = 0;
  size_t begin = 0;
  size_t end = 0;
};

/// The folded text and its words. Marks inside a word ("don't") are left out of its hash.
struct Words {
  std::u32string text;
  std::vector<Word> words;
};

constexpr uint64_t kFnvBasis = 0xcbf29ce484222325;
constexpr uint64_t kFnvPrime = 0x100000001b3;

Words split_folded(std::string_view text) {
  Words result{.text = code_points(fold_text(text)), .words = {}};
  Word word;
  bool open = false;
  const auto close = [&](size_t end) {
    if (open) {
      word.end = end;
      result.words.push_back(word);
    }
    open = false;
  };
  for (size_t i = 0; i < result.text.size(); ++i) {
    const char32_t c = result.text[i];
    const bool alone = is_word_by_itself(c);
    if (alone || is_space(c)) close(i);
    if (!alone && !is_letter_digit_or_mark(c)) continue;
    if (!open) word = {.hash = kFnvBasis, .begin = i};
    open = true;
    word.hash = (word.hash ^ c) * kFnvPrime;
    if (alone) close(i + 1);
  }
  close(result.text.size());
  return result;
}

/// Hash of words [begin, begin + length).
uint64_t run_hash(const std::vector<Word>& words, size_t begin, int64_t length) {
  uint64_t hash = kFnvBasis;
  for (int64_t i = 0; i < length; ++i) {
    hash = (hash ^ words[begin + static_cast<size_t>(i)].hash) * kFnvPrime;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

void ContaminationIndex::add_text(std::string_view text, Place place) {
  const std::vector<Word> words = split_folded(text).words;
  const auto count = static_cast<int64_t>(words.size());
  const int64_t length = std::min(count, ngram_);
  if (length < std::min(kShortestText, ngram_)) return;
  ++files_[place.file].texts;
  auto& runs = runs_[length];
  for (int64_t begin = 0; begin + length <= count; ++begin) {
    runs.emplace(run_hash(words, static_cast<size_t>(begin), length), place);
  }
}

void ContaminationIndex::add_json(const Json& json, Place place) {
  if (json.is_string()) {
    add_text(json.get_ref<const std::string&>(), place);
  } else if (json.is_structured()) {
    for (const Json& value : json) add_json(value, place);
  }
}

void ContaminationIndex::add_file(const std::filesystem::path& path) {
  const auto file = static_cast<uint32_t>(files_.size());
  files_.push_back({.path = path.string()});
  const auto add_row = [&](int64_t line, const Json& json) {
    add_json(json, {.file = file, .line = static_cast<uint32_t>(line)});
  };
  if (path.extension() == ".jsonl") {
    for_each_json_row(path, add_row);
  } else if (path.extension() == ".json") {
    const Json json = read_json_file(path, {.max_bytes = kMaxFileBytes});
    int64_t element = 0;
    if (!json.is_array()) return add_row(1, json);
    for (const Json& value : json) add_row(++element, value);
  } else {
    for_each_line(path, kMaxLineBytes, [&](int64_t line, std::string_view text) {
      add_text(text, {.file = file, .line = static_cast<uint32_t>(line)});
    });
  }
}

std::optional<ContaminationIndex::Match> ContaminationIndex::find(std::string_view text) const {
  const Words folded = split_folded(text);
  const auto count = static_cast<int64_t>(folded.words.size());
  for (const auto& [length, runs] : runs_) {
    for (int64_t begin = 0; begin + length <= count; ++begin) {
      const auto first = static_cast<size_t>(begin);
      const auto found = runs.find(run_hash(folded.words, first, length));
      if (found == runs.end()) continue;
      const size_t from = folded.words[first].begin;
      const size_t to = folded.words[first + static_cast<size_t>(length) - 1].end;
      const Place& place = found->second;
      return Match{.file = place.file,
                   .place = fmt::format("{}:{}", files_[place.file].path, place.line),
                   .words = to_utf8(std::u32string_view(folded.text).substr(from, to - from))};
    }
  }
  return std::nullopt;
}

std::optional<ContaminationIndex::Match> ContaminationIndex::find_in(const Json& json) const {
  if (json.is_string()) return find(json.get_ref<const std::string&>());
  if (!json.is_structured()) return std::nullopt;
  for (const Json& value : json) {
    if (auto match = find_in(value)) return match;
  }
  return std::nullopt;
}

}  // namespace calyrex::data
