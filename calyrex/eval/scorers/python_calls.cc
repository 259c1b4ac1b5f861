#include "calyrex/eval/scorers/python_calls.h"

#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace calyrex::eval {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool in_name(char c) { return starts_name(c) || is_digit(c) || c == '.'; }

void append_code_point(std::string& text, uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xc0 | (c >> 6));
    text += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xe0 | (c >> 12));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | (c >> 18));
    text += static_cast<char>(0x80 | ((c >> 12) & 0x3f));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (c & 0x3f));
  }
}

/// Recursive descent over one text. Every function returns nothing where the text is something else.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  std::optional<std::vector<FunctionCall>> read_all() {
    const bool list = take('[');
    std::vector<FunctionCall> calls;
    while (!at_end() && !(list && peek() == ']')) {
      std::optional<FunctionCall> call = read_call();
      if (!call || calls.size() == kMaxCalls) return std::nullopt;
      calls.push_back(*std::move(call));
      if (!take(',') && !take(';') && list) break;
    }
    if ((list && !take(']')) || !at_end() || calls.empty()) return std::nullopt;
    return calls;
  }

  std::optional<JsonPiece> read_one() {
    std::optional<Json> value = read_value(0);
    if (!value) return std::nullopt;
    return JsonPiece{.value = *std::move(value), .end = at_};
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }
  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string_view read_name() {
    if (!starts_name(peek())) return {};
    const size_t begin = at_;
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::optional<FunctionCall> read_call() {
    FunctionCall call{.name = std::string(read_name())};
    if (call.name.empty() || !take('(')) return std::nullopt;
    for (size_t position = 0; !take(')'); ++position) {
      if (position > 0 && !take(',')) return std::nullopt;
      if (position > 0 && take(')')) break;
      const size_t begin = at_;
      std::string key(read_name());
      if (key.empty() || !take('=')) {
        at_ = begin;
        key = fmt::format("{}", position);
      }
      std::optional<Json> value = read_value(0);
      if (!value || call.arguments.contains(key)) return std::nullopt;
      call.arguments[key] = *std::move(value);
    }
    return call;
  }

  std::optional<Json> read_value(int depth) {
    if (depth > kMaxAnswerJsonDepth) return std::nullopt;
    const char c = peek();
    if (c == '[') return read_list('[', ']', depth);
    if (c == '(') return read_list('(', ')', depth);
    if (c == '{') return read_braces(depth);
    if (c == '"' || c == '\'') return read_strings();
    if (c == '-' || c == '+' || c == '.' || is_digit(c)) return read_number();
    const std::string_view name = read_name();
    if (name.empty() || peek() == '(') return std::nullopt;
    if (name == "True" || name == "true") return Json(true);
    if (name == "False" || name == "false") return Json(false);
    if (name == "None" || name == "null") return Json(nullptr);
    return Json(std::string(name));
  }

  std::optional<Json> read_list(char open, char close, int depth) {
    take(open);
    return read_items(Json::array(), close, depth);
  }

  /// The items that follow those in `list`, up to `close`.
  std::optional<Json> read_items(Json list, char close, int depth) {
    while (!take(close)) {
      if (!list.empty() && !take(',')) return std::nullopt;
      if (!list.empty() && take(close)) break;
      std::optional<Json> item = read_value(depth + 1);
      if (!item) return std::nullopt;
      list.push_back(*std::move(item));
    }
    return list;
  }

  /// A dictionary with text keys; a set becomes a list.
  std::optional<Json> read_braces(int depth) {
    take('{');
    Json object = Json::object();
    while (!take('}')) {
      if (!object.empty() && !take(',')) return std::nullopt;
      if (!object.empty() && take('}')) break;
      std::optional<Json> key = read_value(depth + 1);
      if (!key) return std::nullopt;
      if (object.empty() && peek() != ':') return read_items(Json::array({*std::move(key)}), '}', depth);
      if (!take(':') || !key->is_string()) return std::nullopt;
      std::optional<Json> value = read_value(depth + 1);
      if (!value) return std::nullopt;
      object[key->get<std::string>()] = *std::move(value);
    }
    return object;
  }

  /// Strings beside each other are one.
  std::optional<Json> read_strings() {
    std::string joined;
    while (peek() == '"' || peek() == '\'') {
      std::optional<std::string> part = read_string();
      if (!part) return std::nullopt;
      joined += *part;
    }
    return Json(std::move(joined));
  }

  std::optional<std::string> read_string() {
    const std::string_view quote = text_.substr(at_, 1);
    const std::string triple(3, quote[0]);
    const std::string_view closing = text_.substr(at_).starts_with(triple) ? std::string_view(triple) : quote;
    at_ += closing.size();
    std::string value;
    while (at_ < text_.size()) {
      if (text_.substr(at_).starts_with(closing)) {
        at_ += closing.size();
        return value;
      }
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
        read_escape(value);
      } else {
        value += text_[at_++];
      }
    }
    return std::nullopt;
  }

  /// Behind the backslash. An escape that Python does not know stays as written.
  void read_escape(std::string& value) {
    constexpr std::string_view kLetters = "nrtabfv0\\'\"";
    constexpr std::string_view kValues("\n\r\t\a\b\f\v\0\\'\"", 11);
    const char c = text_[at_++];
    if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
      value += kValues[known];
      return;
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = 0;
    const std::string_view hex = text_.substr(at_, digits);
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    const bool whole =
        digits > 0 && hex.size() == digits && error == std::errc() && end == hex.data() + digits;
    if (whole && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff)) {
      append_code_point(value, code);
      at_ += digits;
    } else if (c != '\n') {
      value += '\\';
      value += c;
    }
  }

  std::optional<Json> read_number() {
    std::string digits;
    bool whole = true;
    if (text_[at_] == '+' || text_[at_] == '-') {
      if (text_[at_++] == '-') digits = "-";
    }
    const size_t begin = at_;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      const bool exponent_sign = (c == '-' || c == '+') && at_ > begin && (text_[at_ - 1] | 0x20) == 'e';
      if (c == '_' && at_ > begin && is_digit(text_[at_ - 1])) continue;
      if (!is_digit(c) && c != '.' && (c | 0x20) != 'e' && !exponent_sign) break;
      whole = whole && is_digit(c);
      if (c != '+') digits += c;
    }
    if (at_ == begin) return std::nullopt;
    const char* last = digits.data() + digits.size();
    int64_t integer = 0;
    if (whole) {
      const auto [end, error] = std::from_chars(digits.data(), last, integer);
      if (error == std::errc() && end == last) return Json(integer);
    }
    double real = 0.0;
    const auto [end, error] = std::from_chars(digits.data(), last, real);
    if (error != std::errc() || end != last || !std::isfinite(real)) return std::nullopt;
    return Json(real);
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<FunctionCall>> parse_python_calls(std::string_view text) {
  if (text.size() > kMaxAnswerJsonBytes) return std::nullopt;
  return PythonReader(text).read_all();
}

std::optional<JsonPiece> python_value_at(std::string_view text, size_t at) {
  if (at >= text.size()) return std::nullopt;
  std::optional<JsonPiece> piece = PythonReader(text.substr(at, kMaxAnswerJsonBytes)).read_one();
  if (piece) piece->end += at;
  return piece;
}

}  // namespace calyrex::eval
