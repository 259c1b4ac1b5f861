// Keywords, letters, lengths.
#include <algorithm>
#include <limits>
#include <memory>

#include "calyrex/base/error.h"
#include "calyrex/eval/ifeval/checkers.h"
#include "calyrex/eval/ifeval/pattern.h"

namespace calyrex::ifeval {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

/// Patterns are shared by the copies of a check.
using Patterns = std::shared_ptr<const std::vector<Pattern>>;

Patterns compile_all(const std::vector<std::string>& words, std::string_view edge) {
  auto patterns = std::make_shared<std::vector<Pattern>>();
  for (const std::string& word : words) {
    patterns->emplace_back(fmt::format("{}{}{}", edge, word, edge), Case::kIgnore);
  }
  return patterns;
}

std::string stripped(const std::string& text) { return encode_utf8(strip(decode_utf8(text))); }

/// Every keyword is a regular expression that is found somewhere.
Check existence(Arguments& arguments) {
  return [patterns = compile_all(arguments.texts("keywords"), "")](const Answer& answer) {
    Followed result = Followed::kYes;
    for (const Pattern& pattern : *patterns) {
      const std::optional<int64_t> found = pattern.count(answer.utf8(), 1);
      if (found == 0) return Followed::kNo;
      if (!found) result = Followed::kUndecided;
    }
    return result;
  };
}

/// None of the words is found between word edges.
Check forbidden_words(Arguments& arguments) {
  return [patterns = compile_all(arguments.texts("forbidden_words"), "\\b")](const Answer& answer) {
    Followed result = Followed::kYes;
    for (const Pattern& pattern : *patterns) {
      const std::optional<int64_t> found = pattern.count(answer.utf8(), 1);
      if (found == 1) return Followed::kNo;
      if (!found) result = Followed::kUndecided;
    }
    return result;
  };
}

Check keyword_frequency(Arguments& arguments) {
  const std::string keyword = stripped(arguments.text("keyword"));
  if (keyword.empty()) fail(ErrorCode::kInvalidArgument, "keyword: expected a word, got nothing");
  return [patterns = compile_all({keyword}, ""),
          compare = arguments.comparison("frequency", "relation")](const Answer& answer) {
    const std::optional<int64_t> found = patterns->front().count(answer.utf8(), kAll);
    return found ? compare(*found) : Followed::kUndecided;
  };
}

/// Any one character counts; the published code of before 2025 drew a random letter for one that is none.
Check letter_frequency(Arguments& arguments) {
  const std::string given = arguments.text("letter");
  const Text letter = decode_utf8(given);
  if (letter.size() != 1) {
    fail(ErrorCode::kInvalidArgument, "letter: expected one character, got '{}'", given);
  }
  return [wanted = lower(strip(letter)),
          compare = arguments.comparison("let_frequency", "let_relation")](const Answer& answer) {
    const Text& text = answer.lowered();
    return compare(wanted.size() == 1 ? std::count(text.begin(), text.end(), wanted.front()) : 0);
  };
}

Check number_of_words(Arguments& arguments) {
  return [compare = arguments.comparison("num_words", "relation")](const Answer& answer) {
    return compare(answer.num_words());
  };
}

Check number_of_sentences(Arguments& arguments) {
  return [compare = arguments.comparison("num_sentences", "relation")](const Answer& answer) {
    return compare(answer.num_sentences());
  };
}

/// Pieces between \s?\*\*\*\s?
std::vector<TextView> starred_pieces(TextView text) {
  std::vector<TextView> pieces;
  size_t begin = 0;
  for (size_t stars = text.find(U"***"); stars != TextView::npos; stars = text.find(U"***", begin)) {
    const size_t end = stars > begin && is_space(text[stars - 1]) ? stars - 1 : stars;
    pieces.push_back(text.substr(begin, end - begin));
    begin = stars + 3;
    if (begin < text.size() && is_space(text[begin])) ++begin;
  }
  pieces.push_back(text.substr(begin));
  return pieces;
}

Check number_of_paragraphs(Arguments& arguments) {
  return [wanted = arguments.integer("num_paragraphs")](const Answer& answer) {
    const std::vector<TextView> pieces = starred_pieces(answer.text());
    auto count = static_cast<int64_t>(pieces.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (!is_blank(pieces[i])) continue;
      if (i != 0 && i + 1 != pieces.size()) return Followed::kNo;
      --count;
    }
    return followed(count == wanted);
  };
}

/// The first word of a paragraph that is not blank: no quotes before it, nothing from a mark on, small
/// letters.
Text first_word(TextView paragraph) {
  TextView word = lstrip(lstrip(split(paragraph).front(), U'\''), U'"');
  word = word.substr(0, word.find_first_of(U".,?!'\""));
  Text result;
  for (const char32_t c : word) result += lower(TextView(&c, 1));
  return result;
}

Check nth_paragraph_first_word(Arguments& arguments) {
  const int64_t paragraphs = arguments.integer("num_paragraphs", 1);
  const int64_t nth = arguments.integer("nth_paragraph", 1);
  if (nth > paragraphs) {
    fail(ErrorCode::kInvalidArgument, "nth_paragraph: {} of {} paragraphs", nth, paragraphs);
  }
  return [paragraphs, nth, word = lower(decode_utf8(arguments.text("first_word")))](const Answer& answer) {
    const std::vector<TextView> pieces = split(answer.text(), U"\n\n");
    const int64_t count =
        std::count_if(pieces.begin(), pieces.end(), [](TextView p) { return !is_blank(p); });
    if (nth > count) return Followed::kNo;
    const TextView piece = pieces[static_cast<size_t>(nth - 1)];
    return followed(!is_blank(piece) && count == paragraphs && first_word(piece) == word);
  };
}

}  // namespace

void add_word_checkers(CheckerTable& table) {
  table["keywords:existence"] = existence;
  table["keywords:frequency"] = keyword_frequency;
  table["keywords:forbidden_words"] = forbidden_words;
  table["keywords:letter_frequency"] = letter_frequency;
  table["length_constraints:number_words"] = number_of_words;
  table["length_constraints:number_sentences"] = number_of_sentences;
  table["length_constraints:number_paragraphs"] = number_of_paragraphs;
  table["length_constraints:nth_paragraph_first_word"] = nth_paragraph_first_word;
}

}  // namespace calyrex::ifeval
