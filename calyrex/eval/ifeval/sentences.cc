#include "calyrex/eval/ifeval/sentences.h"

#include <optional>

#include "calyrex/eval/ifeval/punkt_words.h"

namespace calyrex::ifeval {
namespace {

constexpr TextView kSentenceEnds = U".?!";
constexpr TextView kNoSentenceStart = U";:,.!?";
constexpr TextView kClosing = U"\"')]}";

bool is_one_of(char32_t c, TextView set) { return set.find(c) != TextView::npos; }
bool is_single(TextView text, TextView set) { return text.size() == 1 && is_one_of(text.front(), set); }

struct Word {
  explicit Word(TextView text);

  bool is_initial() const {  // one letter and a period
    return text.size() == 2 && is_word(text[0]) && !is_digit(text[0]) && text[1] == '.';
  }
  TextView type_without_period() const {
    return type.size() > 1 && type.back() == '.' ? TextView(type).substr(0, type.size() - 1) : TextView(type);
  }
  TextView type_without_break() const { return breaks ? type_without_period() : TextView(type); }

  TextView text;
  Text type;  // lower case; "##number##" for numbers
  bool breaks = false;
  bool abbreviation = false;
  bool ellipsis = false;
};

const Text kNumber = U"##number##";

/// -?[.,]?\d[\d,.-]*
bool is_number(TextView text) {
  size_t at = 0;
  if (at < text.size() && text[at] == '-') ++at;
  if (at < text.size() && is_one_of(text[at], U".,")) ++at;
  if (at >= text.size() || !is_digit(text[at])) return false;
  for (const char32_t c : text.substr(at)) {
    if (!is_digit(c) && !is_one_of(c, U",.-")) return false;
  }
  return true;
}

Word::Word(TextView text) : text(text), type(lower(text)) {
  if (is_number(type)) type = kNumber;
}

/// What the word's own form says (Kiss and Strunk, section 3).
void annotate_by_type(const PunktModel& model, Word& word) {
  const TextView text = word.text;
  if (is_single(text, kSentenceEnds)) {
    word.breaks = true;
  } else if (text.size() > 1 && text.find_first_not_of(U'.') == TextView::npos) {
    word.ellipsis = true;
  } else if (text.ends_with(U'.') && !text.ends_with(U"..")) {
    const Text body = lower(text.substr(0, text.size() - 1));
    const size_t hyphen = body.rfind(U'-');
    const TextView last = hyphen == Text::npos ? TextView(body) : TextView(body).substr(hyphen + 1);
    word.abbreviation = model.is_abbreviation(body) || model.is_abbreviation(last);
    word.breaks = !word.abbreviation;
  }
}

/// Whether the word starts a sentence, as far as its capital letter tells; none: unsure.
std::optional<bool> starts_sentence(const PunktModel& model, const Word& word) {
  if (is_single(word.text, kNoSentenceStart)) return false;
  const int seen = model.seen(word.type_without_break());
  if (is_upper(word.text[0]) && (seen & kAnyLower) != 0 && (seen & kMiddleUpper) == 0) return true;
  if (is_lower(word.text[0]) && ((seen & kAnyUpper) != 0 || (seen & kBeginLower) == 0)) return false;
  return std::nullopt;
}

/// What the next word says (section 4).
void annotate_by_next(const PunktModel& model, Word& word, const Word& next) {
  if (!word.text.ends_with(U'.')) return;
  const auto no_break = [&word] {
    word.breaks = false;
    word.abbreviation = true;
  };
  const TextView type = word.type_without_period();
  const TextView next_type = next.type_without_break();
  if (model.is_collocation(type, next_type)) return no_break();
  const bool initial = word.is_initial();
  if ((word.abbreviation || word.ellipsis) && !initial) {
    const bool listed = is_upper(next.text[0]) && model.is_starter(next_type);
    if (listed || starts_sentence(model, next) == true) {
      word.breaks = true;
      return;
    }
  }
  if (!initial && type != kNumber) return;
  const std::optional<bool> starts = starts_sentence(model, next);
  const bool unsure_name =
      !starts && initial && is_upper(next.text[0]) && (model.seen(next_type) & kAnyLower) == 0;
  if (starts == false || unsure_name) no_break();
}

/// Whether a sentence ends within the context: a word, a mark, and what follows.
bool has_break(const PunktModel& model, TextView context) {
  std::optional<Word> last;
  for (const TextView line : split(context, U"\n")) {
    for (const TextView piece : split_punkt_words(line)) {
      Word word(piece);
      annotate_by_type(model, word);
      if (last) {
        annotate_by_next(model, *last, word);
        if (last->breaks) return true;
      }
      last = std::move(word);
    }
  }
  return false;
}

/// A mark that may end a sentence.
struct Candidate {
  size_t word_begin = 0;  // of the word that the mark ends
  size_t mark = 0;
  size_t context_end = 0;  // after the next token, or after the mark that follows directly
  size_t next_begin = 0;   // where the next sentence would start
};

/// Python's string.whitespace.
bool is_ascii_space(char32_t c) { return c == ' ' || (c >= 9 && c <= 13); }

/// Fills in what follows the mark at `mark`; false when nothing does.
bool look_ahead(TextView text, size_t mark, Candidate& candidate) {
  size_t at = mark + 1;
  candidate.mark = mark;
  if (at < text.size() && is_punkt_outside_word(text[at])) {
    candidate.context_end = at + 1;
    candidate.next_begin = at;
    return true;
  }
  while (at < text.size() && is_space(text[at])) ++at;
  if (at == mark + 1 || at == text.size()) return false;
  candidate.next_begin = at;
  while (at < text.size() && !is_space(text[at])) ++at;
  candidate.context_end = at;
  return true;
}

/// Where the word before `mark` begins; `last` is the candidate before. As in NLTK, a blank that is the very
/// first character of the text does not count.
size_t find_word_begin(TextView text, const Candidate& last, size_t mark) {
  for (size_t at = mark; at > last.mark + 1; --at) {
    if (is_ascii_space(text[at - 1])) return at;
  }
  return last.word_begin;
}

/// The marks that may end a sentence; of several in one word the last.
std::vector<Candidate> find_candidates(TextView text) {
  std::vector<Candidate> candidates;
  Candidate last;
  bool any = false;
  for (size_t mark = 0; mark < text.size(); ++mark) {
    Candidate candidate;
    if (!is_one_of(text[mark], kSentenceEnds) || !look_ahead(text, mark, candidate)) continue;
    candidate.word_begin = find_word_begin(text, last, mark);
    if (any && last.mark <= candidate.word_begin) candidates.push_back(last);
    last = candidate;
    any = true;
  }
  if (any) candidates.push_back(last);
  return candidates;
}

struct Span {
  size_t begin = 0;
  size_t end = 0;
};

/// Length of the closing quotes and brackets at the start of a sentence that belong to the one before; with
/// the white space after them in `whole`.
size_t closing_length(TextView sentence, size_t& whole) {
  size_t length = 0;
  while (length < sentence.size() && is_one_of(sentence[length], kClosing)) ++length;
  whole = length;
  while (whole < sentence.size() && is_space(sentence[whole])) ++whole;
  const bool belongs = length > 0 && (whole > length || length == sentence.size() ||
                                      sentence.substr(length).starts_with(U"--"));
  if (!belongs) whole = 0;
  return belongs ? length : 0;
}

std::vector<Span> break_spans(const PunktModel& model, TextView text) {
  std::vector<Span> spans;
  size_t begin = 0;
  for (const Candidate& candidate : find_candidates(text)) {
    const size_t from = candidate.word_begin;
    if (!has_break(model, text.substr(from, candidate.context_end - from))) continue;
    spans.push_back({begin, candidate.mark + 1});
    begin = candidate.next_begin;
  }
  spans.push_back({begin, rstrip(text).size()});
  return spans;
}

}  // namespace

std::vector<TextView> split_sentences(const PunktModel& model, TextView text) {
  const std::vector<Span> spans = break_spans(model, text);
  std::vector<TextView> sentences;
  size_t moved = 0;  // start of a sentence that went to the one before
  for (size_t i = 0; i < spans.size(); ++i) {
    const size_t begin = spans[i].begin + moved;
    size_t end = spans[i].end;
    moved = 0;
    if (i + 1 < spans.size()) {
      const Span& next = spans[i + 1];
      const TextView following =
          next.begin < next.end ? text.substr(next.begin, next.end - next.begin) : TextView();
      if (const size_t closing = closing_length(following, moved); closing > 0) {
        end = next.begin + closing;
        sentences.push_back(text.substr(begin, end - begin));
        continue;
      }
    }
    if (begin < end) sentences.push_back(text.substr(begin, end - begin));
  }
  return sentences;
}

}  // namespace calyrex::ifeval
