#include "calyrex/text/utf8.h"

#include <algorithm>
#include <cstdint>

namespace calyrex::text {
namespace {

/// Bytes of the character at the start of `text` and its code point; size 0 when it is malformed.
struct Character {
  size_t size = 0;
  char32_t code = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [&](size_t index) { return static_cast<uint8_t>(text[index]); };
  if (byte(0) < 0x80) return {1, byte(0)};
  const size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < size) return {};
  char32_t code = byte(0) & (0xff >> (size + 1));
  for (size_t index = 1; index < size; ++index) {
    if ((byte(index) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(index) & 0x3f);
  }
  const char32_t smallest = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
  if (code < smallest || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  return {size, code};
}

/// Unicode White_Space and the four ASCII separators, which Python strips too.
bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20) || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
         code == 0x202f || code == 0x205f || code == 0x3000;
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t size = first_character(bytes).size;
    if (size == 0) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

std::string_view trim_start(std::string_view text) {
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.size == 0 || !is_space(character.code)) break;
    text.remove_prefix(character.size);
  }
  return text;
}

std::string_view trim_end(std::string_view text) {
  while (!text.empty()) {
    size_t size = 1;
    while (size < std::min<size_t>(4, text.size()) &&
           (static_cast<uint8_t>(text[text.size() - size]) & 0xc0) == 0x80) {
      ++size;
    }
    const Character character = first_character(text.substr(text.size() - size));
    if (character.size != size || !is_space(character.code)) break;
    text.remove_suffix(size);
  }
  return text;
}

size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace calyrex::text
