#include "calyrex/eval/ifeval/python_text.h"

#include <algorithm>

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include "calyrex/base/error.h"

namespace calyrex::ifeval {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

UChar32 code(char32_t c) { return static_cast<UChar32>(c); }

bool is_title(char32_t c) { return u_istitle(code(c)); }

template <typename Predicate>
TextView trim_front(TextView text, Predicate outer) {
  while (!text.empty() && outer(text.front())) text.remove_prefix(1);
  return text;
}

template <typename Predicate>
TextView trim_back(TextView text, Predicate outer) {
  while (!text.empty() && outer(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

Text decode_utf8(std::string_view bytes) {
  CALYREX_CHECK(bytes.size() < (size_t{1} << 30));
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const auto size = static_cast<int32_t>(bytes.size());
  Text text;
  text.reserve(bytes.size());
  for (int32_t at = 0; at < size;) {
    UChar32 c = 0;
    U8_NEXT_OR_FFFD(data, at, size, c);
    text.push_back(static_cast<char32_t>(c));
  }
  return text;
}

std::string encode_utf8(TextView text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (char32_t c : text) {
    if (c > 0x10FFFF || U_IS_SURROGATE(c)) c = kReplacement;
    char units[U8_MAX_LENGTH];
    int32_t length = 0;
    U8_APPEND_UNSAFE(units, length, c);
    bytes.append(units, static_cast<size_t>(length));
  }
  return bytes;
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  return c == 0x85 || (U_GET_GC_MASK(code(c)) & U_GC_Z_MASK) != 0;
}

bool is_word(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
  return (U_GET_GC_MASK(code(c)) & (U_GC_L_MASK | U_GC_N_MASK)) != 0;
}

bool is_digit(char32_t c) {
  return c < 0x80 ? c >= '0' && c <= '9' : u_charType(code(c)) == U_DECIMAL_DIGIT_NUMBER;
}

bool is_upper(char32_t c) { return c < 0x80 ? c >= 'A' && c <= 'Z' : u_isUUppercase(code(c)); }
bool is_lower(char32_t c) { return c < 0x80 ? c >= 'a' && c <= 'z' : u_isULowercase(code(c)); }

bool is_all_upper(TextView text) {
  bool cased = false;
  for (const char32_t c : text) {
    if (is_lower(c) || is_title(c)) return false;
    cased = cased || is_upper(c);
  }
  return cased;
}

bool is_all_lower(TextView text) {
  bool cased = false;
  for (const char32_t c : text) {
    if (is_upper(c) || is_title(c)) return false;
    cased = cased || is_lower(c);
  }
  return cased;
}

Text lower(TextView text) {
  Text result(text);
  if (std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 0x80; })) {
    for (char32_t& c : result) c += is_upper(c) ? 'a' - 'A' : 0;
    return result;
  }
  icu::UnicodeString units = icu::UnicodeString::fromUTF32(reinterpret_cast<const UChar32*>(text.data()),
                                                           static_cast<int32_t>(text.size()));
  units.toLower(icu::Locale::getRoot());
  result.clear();
  for (int32_t i = 0; i < units.length(); i = units.moveIndex32(i, 1)) {
    result.push_back(static_cast<char32_t>(units.char32At(i)));
  }
  return result;
}

TextView strip(TextView text) { return trim_front(rstrip(text), is_space); }
TextView rstrip(TextView text) { return trim_back(text, is_space); }

TextView strip(TextView text, char32_t c) { return lstrip(rstrip(text, c), c); }

TextView lstrip(TextView text, char32_t c) {
  return trim_front(text, [c](char32_t other) { return other == c; });
}

TextView rstrip(TextView text, char32_t c) {
  return trim_back(text, [c](char32_t other) { return other == c; });
}

bool is_blank(TextView text) { return std::all_of(text.begin(), text.end(), is_space); }

std::vector<TextView> split(TextView text, TextView separator) {
  CALYREX_CHECK(!separator.empty());
  std::vector<TextView> pieces;
  size_t begin = 0;
  for (size_t at = text.find(separator); at != TextView::npos; at = text.find(separator, begin)) {
    pieces.push_back(text.substr(begin, at - begin));
    begin = at + separator.size();
  }
  pieces.push_back(text.substr(begin));
  return pieces;
}

std::vector<TextView> split(TextView text) {
  std::vector<TextView> pieces;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && !is_space(text[end])) ++end;
    if (end > at) pieces.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return pieces;
}

Text without(TextView text, char32_t c) {
  Text result(text);
  std::erase(result, c);
  return result;
}

int64_t count_words(TextView text) {
  int64_t words = 0;
  bool inside = false;
  for (const char32_t c : text) {
    const bool word = is_word(c);
    words += word && !inside;
    inside = word;
  }
  return words;
}

}  // namespace calyrex::ifeval
