#include "calyrex/eval/ifeval/punkt_words.h"

namespace calyrex::ifeval {
namespace {

constexpr TextView kNeverFirst = U"(\"`{[:;&#*@)}]-,";

/// End of the run of `c` that starts at `at`.
size_t run_end(TextView line, size_t at, char32_t c) {
  while (at < line.size() && line[at] == c) ++at;
  return at;
}

bool is_spaced_period(TextView line, size_t at) {
  return at + 1 < line.size() && line[at] == '.' && is_space(line[at + 1]);
}

/// Whether punctuation of several characters starts at `at`: --, .., or ". . ."
bool starts_long_mark(TextView line, size_t at) {
  if (at + 1 >= line.size()) return false;
  if (line[at] == '-') return line[at + 1] == '-';
  if (line[at] != '.') return false;
  if (line[at + 1] == '.') return true;
  return is_spaced_period(line, at) && is_spaced_period(line, at + 2) && at + 4 < line.size() &&
         line[at + 4] == '.';
}

/// End of the punctuation that starts_long_mark() found.
size_t long_mark_end(TextView line, size_t at) {
  if (!is_spaced_period(line, at)) return run_end(line, at, line[at]);
  while (is_spaced_period(line, at)) at += 2;
  return at < line.size() && line[at] == '.' ? at + 1 : at - 1;
}

/// Whether a word that reaches up to `at` may end there.
bool ends_word(TextView line, size_t at) {
  const auto ends = [&](size_t place) {
    return place >= line.size() || is_space(line[place]) || is_punkt_outside_word(line[place]) ||
           starts_long_mark(line, place);
  };
  return ends(at) || (line[at] == ',' && ends(at + 1));
}

}  // namespace

bool is_punkt_outside_word(char32_t c) { return TextView(U")\";}]*:@'({[?!").find(c) != TextView::npos; }

std::vector<TextView> split_punkt_words(TextView line) {
  std::vector<TextView> words;
  for (size_t at = 0; at < line.size();) {
    if (is_space(line[at])) {
      ++at;
      continue;
    }
    size_t end = at + 1;
    if (starts_long_mark(line, at)) {
      end = long_mark_end(line, at);
    } else if (kNeverFirst.find(line[at]) == TextView::npos) {
      while (!ends_word(line, end)) ++end;
    }
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

}  // namespace calyrex::ifeval
