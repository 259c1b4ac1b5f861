// Language, case, combinations, start and end, punctuation.
#include "calyrex/base/error.h"
#include "calyrex/eval/ifeval/checkers.h"

namespace calyrex::ifeval {
namespace {

/// A text without features counts as followed, as in the published code.
Followed is_in_language(const Answer& answer, const std::string& language) {
  return followed(answer.language().empty() || answer.language() == language);
}

Check response_language(Arguments& arguments) {
  return [language = arguments.text("language")](const Answer& answer) {
    return is_in_language(answer, language);
  };
}

Check english_capital(Arguments&) {
  return [](const Answer& answer) {
    return is_all_upper(answer.text()) ? is_in_language(answer, "en") : Followed::kNo;
  };
}

Check english_lowercase(Arguments&) {
  return [](const Answer& answer) {
    return is_all_lower(answer.text()) ? is_in_language(answer, "en") : Followed::kNo;
  };
}

Check capital_word_frequency(Arguments& arguments) {
  return [compare = arguments.comparison("capital_frequency", "capital_relation")](const Answer& answer) {
    return compare(answer.num_capital_tokens());
  };
}

Check two_responses(Arguments&) {
  return [](const Answer& answer) {
    const std::vector<TextView> pieces = split(answer.text(), U"******");
    std::vector<TextView> responses;
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (!is_blank(pieces[i])) {
        responses.push_back(strip(pieces[i]));
      } else if (i != 0 && i + 1 != pieces.size()) {
        return Followed::kNo;
      }
    }
    return followed(responses.size() == 2 && responses[0] != responses[1]);
  };
}

Check repeat_prompt(Arguments& arguments) {
  const Text prompt = decode_utf8(arguments.text("prompt_to_repeat"));
  if (prompt.empty()) fail(ErrorCode::kInvalidArgument, "prompt_to_repeat is empty");
  return [start = lower(strip(prompt))](const Answer& answer) {
    return followed(lower(strip(answer.text())).starts_with(start));
  };
}

Check end_checker(Arguments& arguments) {
  return [end = lower(strip(decode_utf8(arguments.text("end_phrase"))))](const Answer& answer) {
    return followed(lower(strip(strip(answer.text()), U'"')).ends_with(end));
  };
}

Check quotation(Arguments&) {
  return [](const Answer& answer) {
    const TextView text = strip(answer.text());
    return followed(text.size() > 1 && text.front() == '"' && text.back() == '"');
  };
}

Check no_comma(Arguments&) {
  return [](const Answer& answer) { return followed(answer.text().find(U',') == Text::npos); };
}

}  // namespace

void add_whole_text_checkers(CheckerTable& table) {
  table["language:response_language"] = response_language;
  table["change_case:english_capital"] = english_capital;
  table["change_case:english_lowercase"] = english_lowercase;
  table["change_case:capital_word_frequency"] = capital_word_frequency;
  table["combination:two_responses"] = two_responses;
  table["combination:repeat_prompt"] = repeat_prompt;
  table["startend:end_checker"] = end_checker;
  table["startend:quotation"] = quotation;
  table["punctuation:no_comma"] = no_comma;
}

}  // namespace calyrex::ifeval
