// Formats and the content that must be there. Each count is what len(re.findall()) gives for the pattern in
// the comment, found in one pass.
#include <memory>

#include "calyrex/base/error.h"
#include "calyrex/eval/ifeval/checkers.h"
#include "calyrex/eval/ifeval/pattern.h"
#include "calyrex/eval/ifeval/python_json.h"

namespace calyrex::ifeval {
namespace {

size_t line_end(TextView text, size_t at) { return std::min(text.find(U'\n', at), text.size()); }

/// \[.*?\]
int64_t count_placeholders(TextView text) {
  int64_t count = 0;
  for (size_t open = text.find(U'['); open != TextView::npos; open = text.find(U'[', open)) {
    const size_t close = std::min(text.find_first_of(U"]\n", open), text.size());
    count += close < text.size() && text[close] == ']';
    open = close;
  }
  return count;
}

Check placeholders(Arguments& arguments) {
  return [least = arguments.integer("num_placeholders")](const Answer& answer) {
    return followed(count_placeholders(answer.text()) >= least);
  };
}

/// ^\s*B.*$ over several lines, where `bullet` gives the length of B at a place, or 0. White space may run
/// over line ends, so one match may span several lines.
template <typename Bullet>
int64_t count_bullets(TextView text, Bullet bullet) {
  int64_t count = 0;
  for (size_t at = 0; at <= text.size();) {
    if (at > 0 && text[at - 1] != '\n') {
      at = line_end(text, at) + 1;
      continue;
    }
    size_t mark = at;
    while (mark < text.size() && is_space(text[mark])) ++mark;
    const size_t length = mark < text.size() ? bullet(text, mark) : 0;
    count += length > 0;
    // Without a bullet no line start within the white space leads to one either.
    at = length > 0 ? line_end(text, mark + length) : mark + 1;
  }
  return count;
}

/// \*[^\*]
size_t star_bullet(TextView text, size_t at) {
  return text[at] == '*' && at + 1 < text.size() && text[at + 1] != '*' ? 2 : 0;
}

size_t dash_bullet(TextView text, size_t at) { return text[at] == '-' ? 1 : 0; }

Check bullet_lists(Arguments& arguments) {
  return [wanted = arguments.integer("num_bullets")](const Answer& answer) {
    const Text& text = answer.text();
    return followed(count_bullets(text, star_bullet) + count_bullets(text, dash_bullet) == wanted);
  };
}

Check constrained_response(Arguments&) {
  return [](const Answer& answer) {
    for (const TextView option :
         {TextView(U"My answer is yes."), TextView(U"My answer is no."), TextView(U"My answer is maybe.")}) {
      if (answer.text().find(option) != Text::npos) return Followed::kYes;
    }
    return Followed::kNo;
  };
}

/// Matches of S[^\n\*]*S for S of `stars` asterisks whose inside is not blank.
int64_t count_highlights(TextView text, size_t stars) {
  const Text mark(stars, U'*');
  int64_t count = 0;
  for (size_t open = text.find(mark); open != TextView::npos; open = text.find(mark, open)) {
    const size_t inside = open + stars;
    const size_t close = std::min(text.find_first_of(U"*\n", inside), text.size());
    if (text.substr(close).starts_with(mark)) {
      count += !is_blank(text.substr(inside, close - inside));
      open = close + stars;
    } else {
      ++open;
    }
  }
  return count;
}

Check highlighted_sections(Arguments& arguments) {
  return [least = arguments.integer("num_highlights")](const Answer& answer) {
    return followed(count_highlights(answer.text(), 1) + count_highlights(answer.text(), 2) >= least);
  };
}

std::string stripped(const std::string& text) { return encode_utf8(strip(decode_utf8(text))); }

/// re.split() gives one piece more than there are matches, and one for each group of each match.
Check multiple_sections(Arguments& arguments) {
  const std::string splitter = stripped(arguments.text("section_spliter"));
  const auto pattern =
      std::make_shared<const Pattern>(fmt::format(R"(\s?{}\s?\d+\s?)", splitter), Case::kSensitive);
  return [pattern, least = arguments.integer("num_sections")](const Answer& answer) {
    const std::optional<int64_t> found = pattern->count(answer.utf8(), std::numeric_limits<int64_t>::max());
    return found ? followed(*found * (1 + pattern->num_groups()) >= least) : Followed::kUndecided;
  };
}

Check json_format(Arguments&) {
  return [](const Answer& answer) {
    TextView text = strip(answer.text());
    for (const TextView fence :
         {TextView(U"```json"), TextView(U"```Json"), TextView(U"```JSON"), TextView(U"```")}) {
      if (text.starts_with(fence)) text.remove_prefix(fence.size());
    }
    if (text.ends_with(U"```")) text.remove_suffix(3);
    return followed(is_python_json(strip(text)));
  };
}

/// <<[^\n]+>>: in each line from the first << to the last >>.
bool has_title(TextView text) {
  for (const TextView line : split(text, U"\n")) {
    const size_t open = line.find(U"<<");
    const size_t close = line.rfind(U">>");
    if (open == TextView::npos || close == TextView::npos || close < open + 3) continue;
    if (!is_blank(rstrip(lstrip(line.substr(open, close + 2 - open), U'<'), U'>'))) return true;
  }
  return false;
}

Check title(Arguments&) {
  return [](const Answer& answer) { return followed(has_title(answer.text())); };
}

/// p\.\s?s\. or p\.\s?p\.\s?s, the `letters` in order; the last one without its period in the second.
bool has_postscript(TextView lowered, TextView letters, bool final_period) {
  const TextView first = U"p.";
  for (size_t at = lowered.find(first); at != TextView::npos; at = lowered.find(first, at + 1)) {
    size_t place = at;
    bool matches = true;
    for (size_t i = 0; i < letters.size() && matches; ++i) {
      if (i > 0 && place < lowered.size() && is_space(lowered[place])) ++place;
      matches = place < lowered.size() && lowered[place] == letters[i];
      ++place;
      if (matches && (i + 1 < letters.size() || final_period)) {
        matches = place < lowered.size() && lowered[place] == '.';
        ++place;
      }
    }
    if (matches) return true;
  }
  return false;
}

/// `\s*MARKER.*$` is found where MARKER is.
Check postscript(Arguments& arguments) {
  const std::string marker = stripped(arguments.text("postscript_marker"));
  if (marker == "P.P.S") {
    return [](const Answer& answer) { return followed(has_postscript(answer.lowered(), U"pps", false)); };
  }
  if (marker == "P.S.") {
    return [](const Answer& answer) { return followed(has_postscript(answer.lowered(), U"ps", true)); };
  }
  const auto pattern =
      std::make_shared<const Pattern>(encode_utf8(lower(decode_utf8(marker))), Case::kSensitive);
  return [pattern](const Answer& answer) {
    const std::optional<int64_t> found = pattern->count(encode_utf8(answer.lowered()), 1);
    return found ? followed(*found > 0) : Followed::kUndecided;
  };
}

}  // namespace

void add_format_checkers(CheckerTable& table) {
  table["detectable_content:number_placeholders"] = placeholders;
  table["detectable_content:postscript"] = postscript;
  table["detectable_format:number_bullet_lists"] = bullet_lists;
  table["detectable_format:constrained_response"] = constrained_response;
  table["detectable_format:number_highlighted_sections"] = highlighted_sections;
  table["detectable_format:multiple_sections"] = multiple_sections;
  table["detectable_format:json_format"] = json_format;
  table["detectable_format:title"] = title;
}

}  // namespace calyrex::ifeval
