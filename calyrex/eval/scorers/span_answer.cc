#include "calyrex/eval/scorers/span_answer.h"

#include <algorithm>
#include <unordered_map>

#include "calyrex/data/unicode.h"

namespace calyrex::eval {
namespace {

bool is_ascii_punctuation(char32_t c) {
  return (c >= 0x21 && c <= 0x2f) || (c >= 0x3a && c <= 0x40) || (c >= 0x5b && c <= 0x60) ||
         (c >= 0x7b && c <= 0x7e);
}

/// Python's str.split() also splits at the information separators.
bool is_separator(char32_t c) { return data::is_space(c) || (c >= 0x1c && c <= 0x1f); }

bool is_article(std::u32string_view word) { return word == U"a" || word == U"an" || word == U"the"; }

std::u32string without_articles(std::u32string_view text) {
  std::u32string result;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    while (end < text.size() && data::is_regex_word(text[end])) ++end;
    if (end == at) {
      result.push_back(text[at++]);
      continue;
    }
    if (is_article(text.substr(at, end - at))) {
      result.push_back(U' ');
    } else {
      result.append(text.substr(at, end - at));
    }
    at = end;
  }
  return result;
}

/// Words of a normalised text.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = text.find(' ');
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return words;
}

/// Normalised texts.
double word_f1(std::string_view answer, std::string_view accepted) {
  const std::vector<std::string_view> said = words_of(answer);
  const std::vector<std::string_view> wanted = words_of(accepted);
  if (said.empty() || wanted.empty()) return said.empty() == wanted.empty() ? 1.0 : 0.0;
  std::unordered_map<std::string_view, int64_t> counts;
  for (const std::string_view word : wanted) ++counts[word];
  int64_t shared = 0;
  for (const std::string_view word : said) {
    const auto found = counts.find(word);
    if (found != counts.end() && found->second-- > 0) ++shared;
  }
  if (shared == 0) return 0.0;
  const double precision = static_cast<double>(shared) / static_cast<double>(said.size());
  const double recall = static_cast<double>(shared) / static_cast<double>(wanted.size());
  return 2 * precision * recall / (precision + recall);
}

}  // namespace

std::string normal_answer(std::string_view text) {
  std::u32string points = data::code_points(data::to_lower(text));
  std::erase_if(points, is_ascii_punctuation);
  std::u32string result;
  bool space = false;
  for (const char32_t c : without_articles(points)) {
    if (is_separator(c)) {
      space = true;
      continue;
    }
    if (space && !result.empty()) result.push_back(U' ');
    space = false;
    result.push_back(c);
  }
  return data::to_utf8(result);
}

SpanScore score_span(std::string_view answer, const std::vector<std::string>& accepted) {
  const std::string said = normal_answer(answer);
  SpanScore best;
  bool answerable = false;
  for (const std::string& text : accepted) {
    const std::string wanted = normal_answer(text);
    if (wanted.empty()) continue;
    answerable = true;
    best.exact_match = std::max(best.exact_match, said == wanted ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, word_f1(said, wanted));
  }
  if (!answerable) return said.empty() ? SpanScore{.exact_match = 1.0, .f1 = 1.0} : SpanScore{};
  return best;
}

}  // namespace calyrex::eval
