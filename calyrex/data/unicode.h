// Unicode text as checkers and scorers need it. ICU stays behind unicode.cc. Every function takes any bytes:
// what is no UTF-8 counts as U+FFFD.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace calyrex::data {

/// Code points; every ill-formed sequence is one U+FFFD.
std::u32string code_points(std::string_view text);
std::string to_utf8(std::u32string_view text);

/// White_Space.
bool is_space(char32_t c);
/// What `\w` matches: letters, numbers of any kind, the underscore.
bool is_regex_word(char32_t c);
/// Letters, decimal digits and marks.
bool is_letter_digit_or_mark(char32_t c);
/// Written without spaces between words (Han, kana, Thai, ...): each character stands for itself.
bool is_word_by_itself(char32_t c);

/// NFKC_Casefold with typographic quotes and apostrophes made straight: equal for texts a reader would call
/// the same.
std::string fold_text(std::string_view text);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);

/// Without white space (Unicode White_Space) at both ends.
std::string trim(std::string_view text);
/// Without white space, punctuation and symbols at both ends: "Paris!" -> "Paris".
std::string trim_punctuation(std::string_view text);
/// Letters and digits alone: "K7-plum." -> "K7plum".
std::string letters_and_digits(std::string_view text);
/// Code points in reverse order.
std::string reversed(std::string_view text);

/// Lower case: Ll and title-case letters. Upper case: Lu and title-case letters.
bool has_lower_case(std::string_view text);
bool has_upper_case(std::string_view text);
bool has_letter(std::string_view text);
bool has_digit(std::string_view text);
bool has_letter_or_digit(std::string_view text);
/// The first letter, if any, is upper or title case.
bool starts_upper_case(std::string_view text);

/// True when `phrase` stands in `text` with no letter, digit or mark directly before or after it; case, width
/// and quote style do not count. An empty phrase is never contained.
bool contains_phrase(std::string_view text, std::string_view phrase);
/// Likewise at the very start or end, ignoring white space and punctuation there.
bool starts_with_phrase(std::string_view text, std::string_view phrase);
bool ends_with_phrase(std::string_view text, std::string_view phrase);

/// Pieces between white space.
std::vector<std::string> split_words(std::string_view text);
/// Lines that hold more than white space, trimmed.
std::vector<std::string> split_lines(std::string_view text);

/// A sentence ends with a run of . ! ? or their full-width forms that stands before white space, a closing
/// quote or bracket, or the end. Text after the last one counts when it holds a letter or digit.
std::vector<std::string> split_sentences(std::string_view text);

}  // namespace calyrex::data
