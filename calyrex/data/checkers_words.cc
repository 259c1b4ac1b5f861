// Checkers of words: what must or must not be said.
#include <algorithm>

#include "calyrex/base/json.h"
#include "calyrex/data/checker.h"
#include "calyrex/data/checker_table.h"
#include "calyrex/data/unicode.h"

namespace calyrex::data {
namespace {

std::string text_of(const Json& params, const char* name) { return params.at(name).get<std::string>(); }

bool keeps_nothing(const Json&, const std::string&) { return true; }

bool begins_with(const Json& params, const std::string& answer) {
  return starts_with_phrase(answer, text_of(params, "phrase"));
}

bool ends_with(const Json& params, const std::string& answer) {
  return ends_with_phrase(answer, text_of(params, "phrase"));
}

bool has_phrase(const Json& params, const std::string& answer) {
  return contains_phrase(answer, text_of(params, "phrase"));
}

bool lacks_word(const Json& params, const std::string& answer) {
  return !contains_phrase(answer, text_of(params, "word"));
}

bool lacks_commas(const Json&, const std::string& answer) {
  for (const std::string_view comma : {",", "\uff0c", "\u3001", "\u060c"}) {
    if (answer.find(comma) != std::string::npos) return false;
  }
  return true;
}

bool lacks_digits(const Json&, const std::string& answer) { return !has_digit(answer); }

/// Single letters in a row joined: "A-M-B-E-R 4 2" -> "AMBER42".
std::string spelled_out(const std::string& text) {
  std::string joined;
  std::string spaced;
  for (const char c : text) spaced += c == '-' || c == '.' || c == ',' || c == '_' ? ' ' : c;
  for (const std::string& word : split_words(spaced)) {
    if (word.size() == 1) {
      joined += word;
    } else {
      joined += ' ';
    }
  }
  return joined;
}

/// A code leaks whole or backwards, with any separators, or by its word ("AMBER-42" by "amber"), also spelled
/// out.
bool keeps_secret(const Json& params, const std::string& answer) {
  const std::string code = fold_text(letters_and_digits(text_of(params, "code")));
  const std::string bare = fold_text(letters_and_digits(answer));
  if (bare.find(code) != std::string::npos || bare.find(reversed(code)) != std::string::npos) return false;
  std::string word;
  for (const char c : code) {
    if (c < '0' || c > '9') word += c;
  }
  constexpr size_t kTellingLetters = 4;
  if (word.size() < kTellingLetters) return true;
  return !contains_phrase(answer, word) && !contains_phrase(answer, reversed(word)) &&
         fold_text(spelled_out(answer)).find(word) == std::string::npos;
}

bool stays_on_topic(const Json& params, const std::string& answer) {
  return std::none_of(params.at("off_topic").begin(), params.at("off_topic").end(),
                      [&](const Json& phrase) { return contains_phrase(answer, phrase.get<std::string>()); });
}

bool repeats_question(const Json& params, const std::string& answer) {
  const auto rest = after_question(text_of(params, "question"), answer);
  return rest && has_letter_or_digit(*rest);
}

/// Every number is followed by the unit, and there is one at least.
bool has_units(const Json& params, const std::string& answer) {
  const std::string text = fold_text(answer);
  const std::string unit = fold_text(text_of(params, "unit"));
  const auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  size_t numbers = 0;
  for (size_t i = 0; i < text.size();) {
    if (!digit(i)) {
      ++i;
      continue;
    }
    while (digit(i) || ((text[i] == '.' || text[i] == ',') && digit(i + 1))) ++i;
    const size_t at = i < text.size() && text[i] == ' ' ? i + 1 : i;
    if (text.compare(at, unit.size(), unit) != 0) return false;
    const size_t end = at + unit.size();
    if (end < text.size() && has_letter_or_digit(text.substr(end, 1))) return false;
    ++numbers;
  }
  return numbers > 0;
}

/// The items stand between the separator, and no comma is left.
bool has_separators(const Json& params, const std::string& answer) {
  const std::string separator = trim(text_of(params, "separator"));
  size_t parts = 0;
  std::string_view rest = answer;
  while (true) {
    const size_t at = rest.find(separator);
    parts += has_letter_or_digit(rest.substr(0, at));
    if (at == std::string_view::npos) break;
    rest.remove_prefix(at + separator.size());
  }
  return parts == params.at("count").get<size_t>() && lacks_commas(params, answer);
}

bool is_signed(const Json& params, const std::string& answer) {
  const std::string signature = text_of(params, "signature");
  return answer.ends_with(signature) &&
         has_letter_or_digit(answer.substr(0, answer.size() - signature.size()));
}

bool ends_with_hashtag(const Json&, const std::string& answer) {
  const auto words = split_words(answer);
  return words.size() >= 2 && words.back().size() >= 2 && words.back().front() == '#' &&
         has_letter(words.back());
}

bool keeps_all(const Json& params, const std::string& answer) {
  return std::all_of(params.at("rules").begin(), params.at("rules").end(), [&](const Json& rule) {
    return keeps_rule({.rule = rule.at("rule").get<std::string>(), .params = rule.at("params")}, answer);
  });
}

}  // namespace

std::optional<std::string> after_question(std::string_view question, std::string_view answer) {
  const auto wanted = split_words(question);
  std::string_view rest = answer;
  for (size_t i = 0; i < wanted.size(); ++i) {
    // The repetition may stand in quotes of its own and drop the final mark.
    const std::string_view skipped = i == 0 ? " \t\r\n\"'" : " \t\r\n";
    const size_t begin = std::min(rest.find_first_not_of(skipped), rest.size());
    const size_t end = std::min(rest.find_first_of(" \t\r\n", begin), rest.size());
    const std::string found(rest.substr(begin, end - begin));
    const bool last = i + 1 == wanted.size();
    const bool equal = fold_text(found) == fold_text(i == 0 ? trim_punctuation(wanted[i]) : wanted[i]) ||
                       fold_text(found) == fold_text(wanted[i]) ||
                       (last && fold_text(trim_punctuation(found)) == fold_text(trim_punctuation(wanted[i])));
    if (!equal) return std::nullopt;
    rest.remove_prefix(end);
  }
  return std::string(rest);
}

std::span<const CheckerEntry> word_checkers() {
  static const std::vector<CheckerEntry> table = {
      {"none", {}, keeps_nothing},
      {"begins_with", {{"phrase"}}, begins_with},
      {"ends_with", {{"phrase"}}, ends_with},
      {"keyword", {{"phrase"}}, has_phrase},
      {"forbidden_word", {{"word"}}, lacks_word},
      {"no_commas", {}, lacks_commas},
      {"no_digits", {}, lacks_digits},
      {"keep_secret", {{"code"}}, keeps_secret},
      {"only_topic", {{"off_topic", ParameterKind::kTexts}}, stays_on_topic},
      {"repeat_question", {{"question"}}, repeats_question},
      {"unit", {{"unit"}}, has_units},
      {"separator", {{"separator"}, {"count", ParameterKind::kCount}}, has_separators},
      {"signature", {{"signature"}}, is_signed},
      {"hashtag", {}, ends_with_hashtag},
      {"two_rules", {{"rules", ParameterKind::kCheckers}}, keeps_all},
  };
  return table;
}

}  // namespace calyrex::data
