#include "calyrex/eval/ifeval/word_tokens.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "calyrex/eval/ifeval/sentences.h"

namespace calyrex::ifeval {
namespace {

bool is_one_of(char32_t c, TextView set) { return set.find(c) != TextView::npos; }

/// Letters that are equal for Python's re.IGNORECASE; `letter` is a small letter of ASCII.
bool is_letter(char32_t c, char32_t letter) {
  if (c == letter || c == letter - 'a' + 'A') return true;
  if (letter == 'i') return c == U'\u0130' || c == U'\u0131';
  return letter == 's' && c == U'\u017f';
}

/// Whether `word` (small letters and apostrophes) stands at `at`, whatever the case.
bool stands_at(TextView text, size_t at, TextView word) {
  if (at > text.size() || text.size() - at < word.size()) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    const bool equal = word[i] == '\'' ? text[at + i] == '\'' : is_letter(text[at + i], word[i]);
    if (!equal) return false;
  }
  return true;
}

/// `\b` between at - 1 and at.
bool is_word_edge(TextView text, size_t at) {
  const bool before = at > 0 && is_word(text[at - 1]);
  const bool after = at < text.size() && is_word(text[at]);
  return before != after;
}

struct Replacement {
  size_t length = 0;  // of the match
  Text text;
};

/// re.sub(): `match(text, at)` gives what a match that starts at `at` is replaced by, if there is one;
/// matches are not empty.
template <typename Match>
Text substitute(TextView text, Match match) {
  Text result;
  result.reserve(text.size() + text.size() / 8);
  for (size_t at = 0; at < text.size();) {
    const std::optional<Replacement> found = match(text, at);
    if (found) {
      result += found->text;
      at += found->length;
    } else {
      result += text[at++];
    }
  }
  return result;
}

Text padded(TextView text) {
  Text result = U" ";
  result += text;
  result += U' ';
  return result;
}

/// Blanks around every character of `set`.
Text pad_characters(TextView text, TextView set) {
  Text result;
  result.reserve(text.size() + text.size() / 8);
  for (const char32_t c : text) {
    if (is_one_of(c, set)) {
      result += U' ';
      result += c;
      result += U' ';
    } else {
      result += c;
    }
  }
  return result;
}

/// Blanks around every run of `c` of at least `least` characters.
Text pad_runs(TextView text, char32_t c, size_t least) {
  return substitute(text, [=](TextView all, size_t at) -> std::optional<Replacement> {
    if (all[at] != c) return std::nullopt;
    size_t end = at;
    while (end < all.size() && all[end] == c) ++end;
    const Text run(all.substr(at, end - at));
    return Replacement{end - at, run.size() >= least ? padded(run) : run};
  });
}

/// Every `from` becomes `to`, from left to right.
Text replace_all(TextView text, TextView from, TextView to) {
  Text result;
  size_t begin = 0;
  for (size_t at = text.find(from); at != TextView::npos; at = text.find(from, begin)) {
    result += text.substr(begin, at - begin);
    result += to;
    begin = at + from.size();
  }
  return result += text.substr(begin);
}

Text open_quotes(TextView text) {
  Text result = pad_characters(text, U"\u00ab\u201c\u2018\u201e");
  result = pad_runs(result, U'`', 1);
  if (result.starts_with(U'"')) result.replace(0, 1, U"``");
  result = replace_all(result, U"``", U" `` ");
  result = substitute(result, [](TextView all, size_t at) -> std::optional<Replacement> {
    if (!is_one_of(all[at], U" ([{<")) return std::nullopt;
    const TextView rest = all.substr(at + 1);
    const size_t quote = rest.starts_with(U'"') ? 1 : rest.starts_with(U"''") ? 2 : 0;
    if (quote == 0) return std::nullopt;
    return Replacement{1 + quote, Text(1, all[at]) + U" `` "};
  });
  // An apostrophe before a single letter that is no clitic.
  return substitute(result, [](TextView all, size_t at) -> std::optional<Replacement> {
    if (all[at] != '\'' || at + 1 >= all.size() || !is_word(all[at + 1])) return std::nullopt;
    if (at + 2 < all.size() && is_word(all[at + 2])) return std::nullopt;
    for (const char32_t clitic : TextView(U"mtsdn")) {
      if (is_letter(all[at + 1], clitic)) return std::nullopt;
    }
    return Replacement{2, Text(U"' ") + all[at + 1]};
  });
}

/// The last period, if nothing but characters of `closing` and then white space follows it and no period
/// stands before it: blanks around it and, with `pad_closing`, between it and what follows.
Text pad_final_period(TextView text, TextView closing, bool pad_closing) {
  const size_t period = text.rfind(U'.');
  if (period == TextView::npos || period == 0 || text[period - 1] == '.') return Text(text);
  size_t end = period + 1;
  while (end < text.size() && is_one_of(text[end], closing)) ++end;
  if (!is_blank(text.substr(end))) return Text(text);
  Text result(text.substr(0, period));
  result += pad_closing ? U" . " : U" .";
  result += text.substr(period + 1, end - period - 1);
  result += U' ';
  return result;
}

Text pad_colons_and_commas(TextView text) {
  Text result = substitute(text, [](TextView all, size_t at) -> std::optional<Replacement> {
    if (!is_one_of(all[at], U":,") || at + 1 >= all.size() || is_digit(all[at + 1])) return std::nullopt;
    return Replacement{2, padded(all.substr(at, 1)) + all[at + 1]};
  });
  const size_t line_end = result.ends_with(U'\n') ? 1 : 0;
  if (result.size() > line_end && is_one_of(result[result.size() - 1 - line_end], U":,")) {
    const size_t mark = result.size() - 1 - line_end;
    result.replace(mark, 1, padded(result.substr(mark, 1)));
  }
  return result;
}

Text punctuation(TextView text) {
  Text result = pad_final_period(text, U"])}>\"'\u00bb\u201d\u2019 ", /*pad_closing=*/true);
  result = pad_colons_and_commas(result);
  result = pad_runs(result, U'.', 2);
  result = pad_characters(result, U";@#$%&");
  result = pad_final_period(result, U"])}>\"'", /*pad_closing=*/false);
  result = pad_characters(result, U"?!");
  result = substitute(result, [](TextView all, size_t at) -> std::optional<Replacement> {
    if (all[at] == '\'' || !all.substr(at + 1).starts_with(U"' ")) return std::nullopt;
    return Replacement{3, Text(1, all[at]) + U" ' "};
  });
  result = pad_characters(result, U"*][(){}<>");
  return replace_all(result, U"--", U" -- ");
}

/// A character that is no apostrophe or blank, then one of `endings` and a blank: cut before the ending.
template <size_t N>
Text cut_endings(TextView text, const std::array<TextView, N>& endings) {
  return substitute(text, [&](TextView all, size_t at) -> std::optional<Replacement> {
    if (all[at] == '\'' || all[at] == ' ') return std::nullopt;
    const TextView rest = all.substr(at + 1);
    for (const TextView ending : endings) {
      if (!rest.starts_with(ending) || !rest.substr(ending.size()).starts_with(U' ')) continue;
      Text cut(1, all[at]);
      cut += padded(ending);
      return Replacement{ending.size() + 2, std::move(cut)};
    }
    return std::nullopt;
  });
}

Text close_quotes(TextView text) {
  Text result = pad_characters(text, U"\u00bb\u201d\u2019");
  result = replace_all(result, U"''", U" '' ");
  result = replace_all(result, U"\"", U" '' ");
  result = cut_endings(result, std::to_array<TextView>({U"'s", U"'S", U"'m", U"'M", U"'d", U"'D", U"'"}));
  return cut_endings(
      result, std::to_array<TextView>({U"'ll", U"'LL", U"'re", U"'RE", U"'ve", U"'VE", U"n't", U"N'T"}));
}

/// Contractions of two words without a mark between them.
Text cut_contractions(TextView text) {
  constexpr std::array<std::pair<TextView, TextView>, 8> kPairs = {{{U"can", U"not"},
                                                                    {U"d", U"'ye"},
                                                                    {U"gim", U"me"},
                                                                    {U"gon", U"na"},
                                                                    {U"got", U"ta"},
                                                                    {U"lem", U"me"},
                                                                    {U"more", U"'n"},
                                                                    {U"wan", U"na"}}};
  Text result(text);
  for (const auto& [first, second] : kPairs) {
    const bool needs_space = first == U"wan";
    result = substitute(result, [&](TextView all, size_t at) -> std::optional<Replacement> {
      if (!is_word_edge(all, at) || !stands_at(all, at, first) ||
          !stands_at(all, at + first.size(), second)) {
        return std::nullopt;
      }
      const size_t end = at + first.size() + second.size();
      const bool ends = needs_space ? end < all.size() && is_space(all[end]) : is_word_edge(all, end);
      if (!ends) return std::nullopt;
      return Replacement{end - at, padded(all.substr(at, first.size())) +
                                       Text(all.substr(at + first.size(), second.size())) + U' '};
    });
  }
  for (const TextView second : {TextView(U"is"), TextView(U"was")}) {
    result = substitute(result, [&](TextView all, size_t at) -> std::optional<Replacement> {
      const size_t end = at + 3 + second.size();
      if (all[at] != ' ' || !stands_at(all, at + 1, U"'t") || !stands_at(all, at + 3, second) ||
          !is_word_edge(all, end)) {
        return std::nullopt;
      }
      return Replacement{end - at,
                         padded(all.substr(at + 1, 2)) + Text(all.substr(at + 3, second.size())) + U' '};
    });
  }
  return result;
}

}  // namespace

std::vector<Text> treebank_tokens(TextView sentence) {
  const Text text = cut_contractions(close_quotes(padded(punctuation(open_quotes(sentence)))));
  std::vector<Text> tokens;
  for (const TextView token : split(text)) tokens.emplace_back(token);
  return tokens;
}

std::vector<Text> word_tokens(const PunktModel& model, TextView text) {
  std::vector<Text> tokens;
  for (const TextView sentence : split_sentences(model, text)) {
    std::vector<Text> more = treebank_tokens(sentence);
    std::move(more.begin(), more.end(), std::back_inserter(tokens));
  }
  return tokens;
}

}  // namespace calyrex::ifeval
