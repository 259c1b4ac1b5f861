// Text as Python's str has it: code points, and the methods that the published checkers call, with Python's
// notions of white space, word characters and case. ICU stays behind the .cc files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace calyrex::ifeval {

using Text = std::u32string;
using TextView = std::u32string_view;

/// Any bytes are allowed; what is no UTF-8 becomes U+FFFD.
Text decode_utf8(std::string_view bytes);
/// Surrogates and values beyond U+10FFFF become U+FFFD.
std::string encode_utf8(TextView text);

/// str.isspace() and `\s`.
bool is_space(char32_t c);
/// `\w`: letters, numbers, underscore.
bool is_word(char32_t c);
/// `\d`: decimal digits of any script.
bool is_digit(char32_t c);
/// Unicode's Uppercase and Lowercase; title-case letters are neither.
bool is_upper(char32_t c);
bool is_lower(char32_t c);

/// str.isupper(), str.islower(): at least one such letter, none of the other case and none in title case.
bool is_all_upper(TextView text);
bool is_all_lower(TextView text);

/// str.lower(): full mappings, with the final sigma.
Text lower(TextView text);

/// str.strip() and str.rstrip() without arguments.
TextView strip(TextView text);
TextView rstrip(TextView text);
/// str.strip(c), str.lstrip(c), str.rstrip(c) of one character.
TextView strip(TextView text, char32_t c);
TextView lstrip(TextView text, char32_t c);
TextView rstrip(TextView text, char32_t c);
/// Nothing but white space.
bool is_blank(TextView text);

/// str.split(separator) of a separator that is not empty.
std::vector<TextView> split(TextView text, TextView separator);
/// str.split(): pieces between white space.
std::vector<TextView> split(TextView text);
/// str.replace(c, "").
Text without(TextView text, char32_t c);

/// Number of `\w+` matches.
int64_t count_words(TextView text);

}  // namespace calyrex::ifeval
