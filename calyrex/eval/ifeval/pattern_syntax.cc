#include "calyrex/eval/ifeval/pattern_syntax.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unicode/uchar.h>

#include "calyrex/base/error.h"

namespace calyrex::ifeval {
namespace {

constexpr uint32_t kMaxRepeat = 65535;  // PCRE2's
constexpr char32_t kEnd = 0xFFFFFFFF;
/// White space as Python has it, and the rest, as items of a class.
constexpr std::string_view kSpaces =
    R"(\x09-\x0d\x1c-\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNoSpaces =
    R"(\x00-\x08\x0e-\x1b\x21-\x84\x86-\x9f\xa1-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e})"
    R"(\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
/// Equal for Python without case, though not by simple case folding.
constexpr std::array<TextView, 4> kEqualLetters = {U"Ii\u0130\u0131", U"\u0390\u1fd3", U"\u03b0\u1fe3",
                                                   U"\ufb05\ufb06"};

std::string escaped(char32_t c) { return fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(c)); }

bool is_octal(char32_t c) { return c >= '0' && c <= '7'; }
bool is_decimal(char32_t c) { return c >= '0' && c <= '9'; }
bool is_ascii_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Translator {
 public:
  Translator(TextView pattern, Case letter_case) : in_(pattern), ignore_case_(letter_case == Case::kIgnore) {}

  TranslatedPattern run() {
    while (at_ < in_.size()) translate_item();
    if (!open_.empty()) refuse("missing ), unterminated subpattern");
    if (largest_condition_ > num_groups_) refuse("invalid group reference");
    return {.pattern = std::move(out_), .num_groups = num_groups_};
  }

 private:
  /// What stands before a quantifier.
  enum class Item { kNone, kRepeatable, kRepeated };
  struct OpenGroup {
    int64_t number = 0;  // 0: does not capture
    bool ignore_case = false;
    bool verbose = false;
    int64_t branches_left = -1;  // of a conditional; -1: any number
  };

  [[noreturn]] void refuse(std::string_view reason) const {
    fail(ErrorCode::kInvalidArgument, "{} at position {}", reason, at_);
  }

  char32_t peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : kEnd; }
  bool take(char32_t c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  char32_t next(std::string_view reason) {
    if (at_ >= in_.size()) refuse(reason);
    return in_[at_++];
  }

  void translate_item() {
    const char32_t c = in_[at_++];
    if (verbose_ && is_verbose_gap(c)) return;
    switch (c) {
      case '\\':
        return translate_escape();
      case '[':
        translate_class();
        item_ = Item::kRepeatable;
        return;
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '|':
        if (!open_.empty() && open_.back().branches_left-- == 0) {
          refuse("conditional backref with more than two branches");
        }
        out_ += '|';
        item_ = Item::kNone;
        return;
      case '^':
      case '$':
        return emit_position(c == '^' ? "^" : "$");
      case '.':
        out_ += '.';
        item_ = Item::kRepeatable;
        return;
      case '*':
      case '+':
      case '?':
        return emit_quantifier(std::string(1, static_cast<char>(c)));
      case '{':
        return translate_brace();
      default:
        return emit_literal(c);
    }
  }

  /// White space and comments of verbose mode; a comment is skipped.
  bool is_verbose_gap(char32_t c) {
    if (c == '#') {
      while (at_ < in_.size() && in_[at_++] != '\n') {
      }
      return true;
    }
    return c == ' ' || (c >= 9 && c <= 13);
  }

  void emit_position(std::string_view text) {
    out_ += text;
    item_ = Item::kNone;
  }

  void emit_literal(char32_t c) {
    item_ = Item::kRepeatable;
    if (ignore_case_) {
      for (const TextView equal : kEqualLetters) {
        if (equal.find(c) == TextView::npos) continue;
        out_ += '[';
        for (const char32_t other : equal) out_ += escaped(other);
        out_ += ']';
        return;
      }
    }
    out_ += is_word(c) && c < 0x80 ? std::string(1, static_cast<char>(c)) : escaped(c);
  }

  void emit_quantifier(const std::string& text) {
    if (item_ == Item::kNone) refuse("nothing to repeat");
    if (item_ == Item::kRepeated) refuse("multiple repeat");
    out_ += text;
    if (take('?')) {
      out_ += '?';
    } else if (take('+')) {
      out_ += '+';
    }
    item_ = Item::kRepeated;
  }

  std::optional<uint32_t> take_number() {
    if (!is_decimal(peek())) return std::nullopt;
    uint32_t number = 0;
    while (is_decimal(peek())) {
      number = std::min(number * 10 + static_cast<uint32_t>(in_[at_++] - '0'), kMaxRepeat + 1);
    }
    return number;
  }

  /// {m}, {m,}, {,n}, {m,n}; anything else is the character itself.
  void translate_brace() {
    const size_t start = at_;
    const std::optional<uint32_t> low = take_number();
    const bool comma = take(',');
    const std::optional<uint32_t> high = comma ? take_number() : low;
    if ((!low && !comma) || !take('}')) {
      at_ = start;
      return emit_literal('{');
    }
    if (low.value_or(0) > kMaxRepeat || high.value_or(0) > kMaxRepeat)
      refuse("the repetition number is too large");
    if (high && *high < low.value_or(0)) refuse("min repeat greater than max repeat");
    emit_quantifier(high ? fmt::format("{{{},{}}}", low.value_or(0), *high)
                         : fmt::format("{{{},}}", low.value_or(0)));
  }

  char32_t take_hex(int digits, char letter) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char32_t c = peek();
      const int digit = c < 0x80 ? u_digit(static_cast<UChar32>(c), 16) : -1;
      if (digit < 0) refuse(fmt::format("incomplete escape \\{}", letter));
      value = value * 16 + static_cast<uint32_t>(digit);
      ++at_;
    }
    if (value > 0x10FFFF || U_IS_SURROGATE(value)) refuse(fmt::format("bad escape \\{}", letter));
    return value;
  }

  char32_t take_named_character() {
    const size_t end = in_.find(U'}', at_);
    if (!take('{') || end == TextView::npos) refuse("missing character name");
    const std::string name = encode_utf8(in_.substr(at_, end - at_));
    UErrorCode status = U_ZERO_ERROR;
    const UChar32 c = u_charFromName(U_UNICODE_CHAR_NAME, name.c_str(), &status);
    if (U_FAILURE(status)) refuse("undefined character name");
    at_ = end + 1;
    return static_cast<char32_t>(c);
  }

  /// Escapes that mean one character both inside and outside a class.
  std::optional<char32_t> common_escape(char32_t c) {
    switch (c) {
      case 'a':
        return 7;
      case 'f':
        return 12;
      case 'n':
        return 10;
      case 'r':
        return 13;
      case 't':
        return 9;
      case 'v':
        return 11;
      case 'x':
        return take_hex(2, 'x');
      case 'u':
        return take_hex(4, 'u');
      case 'U':
        return take_hex(8, 'U');
      case 'N':
        return take_named_character();
      default:
        if (is_ascii_letter(c)) refuse(fmt::format("bad escape \\{}", static_cast<char>(c)));
        return is_decimal(c) ? std::nullopt : std::optional(c);
    }
  }

  /// Up to `more` further octal digits after the first.
  char32_t take_octal(char32_t first, int more) {
    uint32_t value = static_cast<uint32_t>(first - '0');
    for (; more > 0 && is_octal(peek()); --more) value = value * 8 + static_cast<uint32_t>(in_[at_++] - '0');
    if (value > 0377) refuse("octal escape value outside of range 0-0o377");
    return value;
  }

  void translate_escape() {
    const char32_t c = next("bad escape (end of pattern)");
    switch (c) {
      case 'A':
      case 'b':
      case 'B':
        return emit_position(std::string("\\") + static_cast<char>(c));
      case 'Z':
        return emit_position("\\z");
      case 'd':
      case 'D':
      case 'w':
      case 'W':
        out_ += std::string("\\") + static_cast<char>(c);
        break;
      case 's':
      case 'S':
        out_ += fmt::format("[{}{}]", c == 's' ? "" : "^", kSpaces);
        break;
      case '0':
        return emit_literal(take_octal(c, 2));
      default:
        if (!is_decimal(c)) return emit_literal(*common_escape(c));
        if (is_octal(c) && is_octal(peek()) && is_octal(peek(1))) return emit_literal(take_octal(c, 2));
        int64_t group = c - '0';
        if (is_decimal(peek())) group = group * 10 + (in_[at_++] - '0');
        emit_reference(group);
    }
    item_ = Item::kRepeatable;
  }

  void emit_reference(int64_t group) {
    if (group == 0 || group > num_groups_) refuse(fmt::format("invalid group reference {}", group));
    for (const OpenGroup& open : open_) {
      if (open.number == group) refuse("cannot refer to an open group");
    }
    out_ += fmt::format("\\g{{{}}}", group);
  }

  /// One member of a class: a character, or the text of a category.
  struct ClassItem {
    char32_t c = 0;
    std::string category;
  };

  ClassItem take_class_item() {
    const char32_t c = next("unterminated character set");
    if (c != '\\') return {.c = c};
    const char32_t escape = next("unterminated character set");
    switch (escape) {
      case 'b':
        return {.c = 8};
      case 'd':
      case 'D':
      case 'w':
      case 'W':
        return {.category = std::string("\\") + static_cast<char>(escape)};
      case 's':
        return {.category = std::string(kSpaces)};
      case 'S':
        return {.category = std::string(kNoSpaces)};
      default:
        break;
    }
    if (is_octal(escape)) return {.c = take_octal(escape, 2)};
    const std::optional<char32_t> character = common_escape(escape);
    if (!character) refuse("bad escape in a character set");
    return {.c = *character};
  }

  void translate_class() {
    out_ += take('^') ? "[^" : "[";
    bool first = true;
    while (first || peek() != ']') {
      first = false;
      const ClassItem low = take_class_item();
      char32_t high = low.c;
      if (peek() == '-' && peek(1) != ']' && at_ + 1 < in_.size()) {
        ++at_;
        const ClassItem item = take_class_item();
        if (!low.category.empty() || !item.category.empty() || item.c < low.c) refuse("bad character range");
        high = item.c;
      }
      if (!low.category.empty()) {
        out_ += low.category;
        continue;
      }
      out_ += high == low.c ? escaped(low.c) : escaped(low.c) + "-" + escaped(high);
      emit_equal_letters(low.c, high);
    }
    ++at_;
    out_ += ']';
  }

  void emit_equal_letters(char32_t low, char32_t high) {
    if (!ignore_case_) return;
    for (const TextView equal : kEqualLetters) {
      for (const char32_t c : equal) {
        if (c < low || c > high) continue;
        for (const char32_t other : equal) out_ += escaped(other);
        break;
      }
    }
  }

  std::string take_name(char32_t end) {
    const size_t stop = in_.find(end, at_);
    if (stop == TextView::npos || stop == at_) refuse("missing group name");
    const std::string name = encode_utf8(in_.substr(at_, stop - at_));
    at_ = stop + 1;
    return name;
  }

  int64_t find_name(const std::string& name) const {
    const auto found = names_.find(name);
    if (found == names_.end()) refuse(fmt::format("unknown group name '{}'", name));
    return found->second;
  }

  void push_group(std::string_view opening, int64_t number = 0) {
    open_.push_back({.number = number, .ignore_case = ignore_case_, .verbose = verbose_});
    out_ += opening;
    item_ = Item::kNone;
  }

  void open_group() {
    if (!take('?')) return push_group("(", ++num_groups_);
    const char32_t c = next("unexpected end of pattern");
    switch (c) {
      case ':':
        return push_group("(?:");
      case '>':
        return push_group("(?>");
      case '=':
        return push_group("(?=");
      case '!':
        return push_group("(?!");
      case '<': {
        const char32_t kind = next("unexpected end of pattern");
        if (kind != '=' && kind != '!') refuse("unknown extension ?<");
        return push_group(kind == '=' ? "(?<=" : "(?<!");
      }
      case '#':
        if ((at_ = in_.find(U')', at_)) == TextView::npos) {
          at_ = in_.size();
          refuse("missing ), unterminated comment");
        }
        ++at_;
        return;
      case 'P':
        return open_named_group();
      case '(':
        return open_conditional();
      default:
        --at_;
        return open_flags();
    }
  }

  void open_named_group() {
    const char32_t kind = next("unexpected end of pattern");
    if (kind == '=') {
      emit_reference(find_name(take_name(')')));
      item_ = Item::kRepeatable;
      return;
    }
    if (kind != '<') refuse("unknown extension ?P");
    const std::string name = take_name('>');
    if (!names_.emplace(name, num_groups_ + 1).second)
      refuse(fmt::format("redefinition of group name '{}'", name));
    push_group("(", ++num_groups_);
  }

  void open_conditional() {
    const bool number = is_decimal(peek());
    const std::string name = take_name(')');
    int64_t group = 0;
    if (number) {
      for (const char digit : name) {
        if (!is_decimal(static_cast<unsigned char>(digit))) refuse("bad character in group name");
        group = std::min<int64_t>(group * 10 + (digit - '0'), kMaxRepeat);
      }
    } else {
      group = find_name(name);
    }
    if (group == 0) refuse("bad group number");
    largest_condition_ = std::max(largest_condition_, group);  // may come later in the pattern
    push_group(fmt::format("(?({})", group));
    open_.back().branches_left = 1;
  }

  /// `(?flags)` at the start of the pattern, `(?flags:...)` and `(?-flags:...)` anywhere.
  void open_flags() {
    const size_t start = at_ - 2;
    std::string text;
    bool ignore_case = ignore_case_;
    bool verbose = verbose_;
    bool on = true;
    for (char32_t c = next("missing flag"); c != ')' && c != ':'; c = next("missing flag")) {
      if (c == '-' && on) {
        on = false;
      } else if (c == 'i') {
        ignore_case = on;
      } else if (c == 'x') {
        verbose = on;
        continue;  // done here
      } else if (c != 'm' && c != 's') {
        refuse(is_ascii_letter(c) ? "unsupported flag" : "unknown extension");
      }
      text += static_cast<char>(c);
    }
    const bool scoped = in_[at_ - 1] == ':';
    if (text == "-") text.clear();
    if (scoped) {
      push_group(fmt::format("(?{}:", text));
    } else {
      if (!on) refuse("missing :");
      if (start != global_flags_end_) refuse("global flags not at the start of the expression");
      global_flags_end_ = at_;
      if (!text.empty()) out_ += fmt::format("(?{})", text);
    }
    ignore_case_ = ignore_case;
    verbose_ = verbose;
  }

  void close_group() {
    if (open_.empty()) refuse("unbalanced parenthesis");
    ignore_case_ = open_.back().ignore_case;
    verbose_ = open_.back().verbose;
    open_.pop_back();
    out_ += ')';
    item_ = Item::kRepeatable;
  }

  TextView in_;
  size_t at_ = 0;
  std::string out_;
  bool ignore_case_ = false;
  bool verbose_ = false;
  size_t global_flags_end_ = 0;
  Item item_ = Item::kNone;
  int64_t num_groups_ = 0;
  int64_t largest_condition_ = 0;
  std::vector<OpenGroup> open_;
  std::map<std::string, int64_t> names_;
};

}  // namespace

TranslatedPattern translate_pattern(TextView pattern, Case letter_case) {
  return Translator(pattern, letter_case).run();
}

}  // namespace calyrex::ifeval
