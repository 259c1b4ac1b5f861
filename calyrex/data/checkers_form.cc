// Checkers of form: letters' case, frames around the answer, lists, sentences.
#include <array>

#include "calyrex/base/json.h"
#include "calyrex/data/checker_table.h"
#include "calyrex/data/unicode.h"

namespace calyrex::data {
namespace {

std::string text_of(const Json& params, const char* name) { return params.at(name).get<std::string>(); }
size_t count_of(const Json& params) { return params.at("count").get<size_t>(); }

/// The text between `prefix` and `suffix` when the answer is exactly that; empty otherwise.
std::string framed(std::string_view answer, std::string_view prefix, std::string_view suffix) {
  if (answer.size() < prefix.size() + suffix.size()) return {};
  if (!answer.starts_with(prefix) || !answer.ends_with(suffix)) return {};
  return std::string(answer.substr(prefix.size(), answer.size() - prefix.size() - suffix.size()));
}

bool is_upper_case(const Json&, const std::string& answer) {
  return has_upper_case(answer) && !has_lower_case(answer);
}

bool is_lower_case(const Json&, const std::string& answer) {
  return has_lower_case(answer) && !has_upper_case(answer);
}

bool is_title_case(const Json&, const std::string& answer) {
  size_t with_letters = 0;
  for (const std::string& word : split_words(answer)) {
    if (!has_letter(word)) continue;
    if (!starts_upper_case(word)) return false;
    ++with_letters;
  }
  return with_letters >= 2;
}

bool is_json_with_key(const Json& params, const std::string& answer) {
  const Json json = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains(text_of(params, "key"));
}

bool is_quoted(const Json&, const std::string& answer) {
  for (const auto& [open, close] :
       {std::pair<std::string_view, std::string_view>{"\"", "\""}, {"\u201c", "\u201d"}}) {
    const std::string inner = framed(answer, open, close);
    if (has_letter_or_digit(inner) && inner.find(open) == std::string::npos) return true;
  }
  return false;
}

bool is_in_tags(const Json& params, const std::string& answer) {
  const std::string tag = text_of(params, "tag");
  return has_letter_or_digit(framed(answer, "<" + tag + ">", "</" + tag + ">"));
}

bool is_in_brackets(const Json&, const std::string& answer) {
  return has_letter_or_digit(framed(answer, "[", "]"));
}

bool is_code_block(const Json&, const std::string& answer) {
  const std::string inner = framed(answer, "```", "```");
  return has_letter_or_digit(inner) && inner.find("```") == std::string::npos;
}

bool fits_frame(const Json& params, const std::string& answer) {
  const std::string suffix = text_of(params, "suffix");
  const std::string inner = framed(answer, text_of(params, "prefix"), suffix);
  // The frame closes once: "-> red <- red <-" is no answer in the frame "-> ... <-".
  return has_letter_or_digit(inner) && inner.find('\n') == std::string::npos &&
         inner.find(trim(suffix) + " ") == std::string::npos;
}

bool has_title(const Json&, const std::string& answer) {
  if (!answer.starts_with("<<")) return false;
  const size_t end = answer.find(">>");
  return end != std::string::npos && has_letter_or_digit(answer.substr(0, end)) &&
         has_letter_or_digit(answer.substr(end));
}

bool has_postscript(const Json& params, const std::string& answer) {
  const std::string marker = text_of(params, "marker");
  const size_t at = answer.find(marker);
  return at != std::string::npos && at > 0 && (answer[at - 1] == '\n' || answer[at - 1] == ' ') &&
         has_letter_or_digit(answer.substr(0, at)) && has_letter_or_digit(answer.substr(at + marker.size()));
}

bool has_bold(const Json&, const std::string& answer) {
  const size_t open = answer.find("**");
  if (open == std::string::npos) return false;
  const size_t close = answer.find("**", open + 2);
  return close != std::string::npos && has_letter_or_digit(answer.substr(open + 2, close - open - 2));
}

bool has_bullets(const Json& params, const std::string& answer) {
  size_t bullets = 0;
  for (const std::string& line : split_lines(answer)) {
    for (const std::string_view mark : {"- ", "* ", "\u2022"}) {
      if (line.starts_with(mark) && has_letter_or_digit(line.substr(mark.size()))) ++bullets;
    }
  }
  return bullets == count_of(params);
}

bool has_numbered_list(const Json& params, const std::string& answer) {
  size_t numbered = 0;
  for (const std::string& line : split_lines(answer)) {
    size_t digits = 0;
    while (digits < line.size() && line[digits] >= '0' && line[digits] <= '9') ++digits;
    if (digits == 0 || digits > 4 || digits >= line.size() || (line[digits] != '.' && line[digits] != ')'))
      continue;
    if (std::stoul(line.substr(0, digits)) != numbered + 1) return false;
    if (!has_letter_or_digit(line.substr(digits))) return false;
    ++numbered;
  }
  return numbered == count_of(params);
}

bool has_sentences(const Json& params, const std::string& answer) {
  return split_sentences(answer).size() == count_of(params);
}

bool exclaims(const Json&, const std::string& answer) {
  const auto sentences = split_sentences(answer);
  for (const std::string& sentence : sentences) {
    if (sentence.find('!') == std::string::npos || sentence.ends_with('.') || sentence.ends_with('?'))
      return false;
  }
  return !sentences.empty();
}

bool is_one_word(const Json&, const std::string& answer) { return split_words(answer).size() == 1; }

bool is_said_twice(const Json&, const std::string& answer) {
  std::vector<std::string> words;
  for (const std::string& word : split_words(fold_text(answer))) {
    std::string bare = trim_punctuation(word);
    if (!bare.empty()) words.push_back(std::move(bare));
  }
  const auto middle = words.begin() + static_cast<std::ptrdiff_t>(words.size() / 2);
  return !words.empty() && words.size() % 2 == 0 && std::equal(words.begin(), middle, middle);
}

}  // namespace

std::span<const CheckerEntry> form_checkers() {
  static const std::vector<CheckerEntry> table = {
      {"upper_case", {}, is_upper_case},
      {"lower_case", {}, is_lower_case},
      {"title_case", {}, is_title_case},
      {"json_key", {{"key"}}, is_json_with_key},
      {"quoted", {}, is_quoted},
      {"tags", {{"tag"}}, is_in_tags},
      {"square_brackets", {}, is_in_brackets},
      {"code_block", {}, is_code_block},
      {"fixed_format", {{"prefix"}, {"suffix"}}, fits_frame},
      {"answer_sentence", {{"prefix"}, {"suffix"}}, fits_frame},
      {"title", {}, has_title},
      {"postscript", {{"marker"}}, has_postscript},
      {"bold", {}, has_bold},
      {"bullets", {{"count", ParameterKind::kCount}}, has_bullets},
      {"numbered_list", {{"count", ParameterKind::kCount}}, has_numbered_list},
      {"sentence_count", {{"count", ParameterKind::kCount}}, has_sentences},
      {"exclamations", {}, exclaims},
      {"one_word", {}, is_one_word},
      {"say_twice", {}, is_said_twice},
  };
  return table;
}

}  // namespace calyrex::data
