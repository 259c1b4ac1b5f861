#include "calyrex/eval/ifeval/python_json.h"

#include <vector>

namespace calyrex::ifeval {
namespace {

class Scanner {
 public:
  explicit Scanner(TextView text) : text_(text) {}

  bool scan() {
    skip_space();
    if (!open_value()) return false;
    while (!open_.empty()) {
      if (!go_on()) return false;
    }
    skip_space();
    return at_ == text_.size();
  }

 private:
  enum class Container { kArray, kObject };

  char32_t peek() const { return at_ < text_.size() ? text_[at_] : 0xFFFFFFFF; }
  bool take(char32_t c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool take(TextView word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void skip_space() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }

  /// A scalar, an empty container, or the start of a container up to its first value.
  bool open_value() {
    for (;;) {
      if (take('[')) {
        skip_space();
        if (take(']')) return true;
        open_.push_back(Container::kArray);
      } else if (take('{')) {
        skip_space();
        if (take('}')) return true;
        open_.push_back(Container::kObject);
        if (!key()) return false;
      } else {
        return scalar();
      }
    }
  }

  /// What follows a value within a container: its end, or a comma and the next value.
  bool go_on() {
    skip_space();
    const bool object = open_.back() == Container::kObject;
    if (take(object ? '}' : ']')) {
      open_.pop_back();
      return true;
    }
    if (!take(',')) return false;
    skip_space();
    if (object && !key()) return false;
    return open_value();
  }

  bool key() {
    if (peek() != '"' || !string()) return false;
    skip_space();
    if (!take(':')) return false;
    skip_space();
    return true;
  }

  bool scalar() {
    if (peek() == '"') return string();
    return take(U"null") || take(U"true") || take(U"false") || take(U"NaN") || take(U"Infinity") ||
           take(U"-Infinity") || number();
  }

  bool string() {
    ++at_;
    for (;;) {
      if (at_ >= text_.size()) return false;
      const char32_t c = text_[at_++];
      if (c == '"') return true;
      if (c < 0x20) return false;
      if (c == '\\' && !escape()) return false;
    }
  }

  bool escape() {
    if (!take('u')) {
      const bool known = TextView(U"\"\\/bfnrt").find(peek()) != TextView::npos;
      ++at_;
      return known;
    }
    for (int i = 0; i < 4; ++i, ++at_) {
      const char32_t c = peek();
      if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))) return false;
    }
    return true;
  }

  bool digits() {
    const size_t start = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ > start;
  }

  /// -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?; an incomplete fraction or exponent is left for the
  /// caller.
  bool number() {
    take('-');
    if (!take('0') && !digits()) return false;
    size_t end = at_;
    if (take('.') && digits()) end = at_;
    at_ = end;
    if (take('e') || take('E')) {
      if (!take('-')) take('+');
      if (digits()) end = at_;
    }
    at_ = end;
    return true;
  }

  TextView text_;
  size_t at_ = 0;
  std::vector<Container> open_;
};

}  // namespace

bool is_python_json(TextView text) { return Scanner(text).scan(); }

}  // namespace calyrex::ifeval
