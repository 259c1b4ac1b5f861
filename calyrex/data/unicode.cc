#include "calyrex/data/unicode.h"

#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include "calyrex/base/error.h"

namespace calyrex::data {
namespace {

icu::UnicodeString from_utf8(std::string_view text) {
  CALYREX_CHECK(text.size() < (size_t{1} << 30));
  return icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

std::string to_utf8(const icu::UnicodeString& text) {
  std::string result;
  text.toUTF8String(result);
  return result;
}

bool is_letter(char32_t c) { return u_isalpha(static_cast<UChar32>(c)); }
bool is_digit(char32_t c) { return u_isdigit(static_cast<UChar32>(c)); }
bool is_outer(char32_t c) {
  return is_space(c) ||
         (U_GET_GC_MASK(static_cast<UChar32>(c)) & (U_GC_P_MASK | U_GC_S_MASK | U_GC_C_MASK)) != 0;
}

template <typename Predicate>
std::u32string_view trim_if(std::u32string_view text, Predicate outer) {
  while (!text.empty() && outer(text.front())) text.remove_prefix(1);
  while (!text.empty() && outer(text.back())) text.remove_suffix(1);
  return text;
}

template <typename Predicate>
bool any_of(std::string_view text, Predicate predicate) {
  for (const char32_t c : code_points(text)) {
    if (predicate(c)) return true;
  }
  return false;
}

char32_t straight(char32_t c) {
  switch (c) {
    case U'\u2018':
    case U'\u2019':
    case U'\u02bc':
      return U'\'';
    case U'\u201c':
    case U'\u201d':
    case U'\u201e':
    case U'\u00ab':
    case U'\u00bb':
      return U'"';
    default:
      return c;
  }
}

std::u32string folded(std::string_view text) { return code_points(fold_text(text)); }

bool is_terminator(char32_t c) {
  return c == U'.' || c == U'!' || c == U'?' || c == U'\u2026' || c == U'\u3002' || c == U'\uff01' ||
         c == U'\uff1f';
}

bool is_closing(char32_t c) {
  return c == U'"' || c == U'\'' || c == U')' || c == U']' || c == U'*' || c == U'\u201d' || c == U'\u2019';
}

}  // namespace

std::u32string code_points(std::string_view text) {
  const icu::UnicodeString units = from_utf8(text);
  std::u32string result;
  for (int32_t i = 0; i < units.length(); i = units.moveIndex32(i, 1)) {
    result.push_back(static_cast<char32_t>(units.char32At(i)));
  }
  return result;
}

std::string to_utf8(std::u32string_view text) {
  icu::UnicodeString units;
  for (const char32_t c : text) units.append(static_cast<UChar32>(c));
  return to_utf8(units);
}

bool is_space(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)); }

bool is_regex_word(char32_t c) {
  return c == U'_' || (U_GET_GC_MASK(static_cast<UChar32>(c)) & (U_GC_L_MASK | U_GC_N_MASK)) != 0;
}

bool is_letter_digit_or_mark(char32_t c) {
  return u_isalnum(static_cast<UChar32>(c)) || (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_M_MASK) != 0;
}

bool is_word_by_itself(char32_t c) {
  const int32_t breaks = u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_LINE_BREAK);
  return breaks == U_LB_IDEOGRAPHIC || breaks == U_LB_COMPLEX_CONTEXT ||
         breaks == U_LB_CONDITIONAL_JAPANESE_STARTER;
}

std::string fold_text(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* folder = icu::Normalizer2::getNFKCCasefoldInstance(status);
  CALYREX_CHECK(U_SUCCESS(status), "no normalisation data: {}", u_errorName(status));
  const icu::UnicodeString normal = folder->normalize(from_utf8(text), status);
  CALYREX_CHECK(U_SUCCESS(status), "normalising failed: {}", u_errorName(status));
  std::u32string result = code_points(to_utf8(normal));
  for (char32_t& c : result) c = straight(c);
  return to_utf8(result);
}

std::string to_upper(std::string_view text) {
  return to_utf8(from_utf8(text).toUpper(icu::Locale::getRoot()));
}

std::string to_lower(std::string_view text) {
  return to_utf8(from_utf8(text).toLower(icu::Locale::getRoot()));
}

std::string trim(std::string_view text) { return to_utf8(trim_if(code_points(text), is_space)); }

std::string trim_punctuation(std::string_view text) { return to_utf8(trim_if(code_points(text), is_outer)); }

std::string letters_and_digits(std::string_view text) {
  std::u32string result;
  for (const char32_t c : code_points(text)) {
    if (is_letter_digit_or_mark(c)) result.push_back(c);
  }
  return to_utf8(result);
}

std::string reversed(std::string_view text) {
  const std::u32string points = code_points(text);
  return to_utf8(std::u32string(points.rbegin(), points.rend()));
}

bool has_lower_case(std::string_view text) {
  return any_of(text, [](char32_t c) {
    return (U_GET_GC_MASK(static_cast<UChar32>(c)) & (U_GC_LL_MASK | U_GC_LT_MASK)) != 0;
  });
}

bool has_upper_case(std::string_view text) {
  return any_of(text, [](char32_t c) {
    return (U_GET_GC_MASK(static_cast<UChar32>(c)) & (U_GC_LU_MASK | U_GC_LT_MASK)) != 0;
  });
}

bool has_letter(std::string_view text) { return any_of(text, is_letter); }
bool has_digit(std::string_view text) { return any_of(text, is_digit); }
bool has_letter_or_digit(std::string_view text) { return any_of(text, is_letter_digit_or_mark); }

bool starts_upper_case(std::string_view text) {
  for (const char32_t c : code_points(text)) {
    if (is_letter(c)) return u_isupper(static_cast<UChar32>(c)) || u_istitle(static_cast<UChar32>(c));
  }
  return true;
}

bool contains_phrase(std::string_view text, std::string_view phrase) {
  const std::u32string haystack = folded(text);
  const std::u32string needle(trim_if(folded(phrase), is_space));
  if (needle.empty()) return false;
  for (size_t at = haystack.find(needle); at != std::u32string::npos; at = haystack.find(needle, at + 1)) {
    const size_t end = at + needle.size();
    const bool free_before =
        at == 0 || !is_letter_digit_or_mark(haystack[at - 1]) || !is_letter_digit_or_mark(needle.front());
    const bool free_after = end == haystack.size() || !is_letter_digit_or_mark(haystack[end]) ||
                            !is_letter_digit_or_mark(needle.back());
    if (free_before && free_after) return true;
  }
  return false;
}

bool starts_with_phrase(std::string_view text, std::string_view phrase) {
  const std::u32string points = folded(text);
  const std::u32string needle(trim_if(folded(phrase), is_outer));
  const std::u32string_view start = trim_if(points, is_outer);
  return !needle.empty() && start.starts_with(needle) &&
         (start.size() == needle.size() || !is_letter_digit_or_mark(start[needle.size()]));
}

bool ends_with_phrase(std::string_view text, std::string_view phrase) {
  const std::u32string points = folded(text);
  const std::u32string needle(trim_if(folded(phrase), is_outer));
  const std::u32string_view end = trim_if(points, is_outer);
  return !needle.empty() && end.ends_with(needle) &&
         (end.size() == needle.size() || !is_letter_digit_or_mark(end[end.size() - needle.size() - 1]));
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  std::u32string word;
  for (const char32_t c : code_points(text) + U' ') {
    if (!is_space(c)) {
      word.push_back(c);
    } else if (!word.empty()) {
      words.push_back(to_utf8(word));
      word.clear();
    }
  }
  return words;
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string line = trim(text.substr(0, end));
    if (!line.empty()) lines.push_back(std::move(line));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::vector<std::string> split_sentences(std::string_view text) {
  const std::u32string points = code_points(text);
  std::vector<std::string> sentences;
  size_t begin = 0;
  const auto take = [&](size_t end) {
    const std::string sentence =
        to_utf8(trim_if(std::u32string_view(points).substr(begin, end - begin), is_space));
    if (has_letter_or_digit(sentence)) sentences.push_back(sentence);
    begin = end;
  };
  for (size_t i = 0; i < points.size(); ++i) {
    if (!is_terminator(points[i])) continue;
    size_t end = i + 1;
    while (end < points.size() && (is_terminator(points[end]) || is_closing(points[end]))) ++end;
    if (end == points.size() || is_space(points[end])) take(end);
    i = end - 1;
  }
  take(points.size());
  return sentences;
}

}  // namespace calyrex::data
