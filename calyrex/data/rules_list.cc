// Rules about lists and commas.
#include <algorithm>
#include <array>

#include "calyrex/data/rule.h"

namespace calyrex::data {
namespace {

using enum QuestionKind;

RuleCase no_commas(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  const std::string listed = join_with_commas(question.items);
  result.answer.replace(result.answer.find(listed), listed.size(), join(question.items, " and "));
  return result;
}

RuleCase bullets(const Question& question, Split, RandomStream& random) {
  const size_t count = std::max<size_t>(2, question.items.size() - random.below(2));
  RuleCase result = plain_case(question);
  result.params["count"] = count;
  result.slots = {{"count", number_word(static_cast<int64_t>(count))}};
  result.answer.clear();
  for (size_t i = 0; i < count; ++i) result.answer += (i == 0 ? "- " : "\n- ") + question.items[i];
  result.expected.at_least = static_cast<int64_t>(count);
  return result;
}

RuleCase numbered_list(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  result.params["count"] = question.items.size();
  result.answer.clear();
  for (size_t i = 0; i < question.items.size(); ++i) {
    result.answer += (i == 0 ? "" : "\n") + std::to_string(i + 1) + ". " + question.items[i];
  }
  return result;
}

RuleCase separator(const Question& question, Split, RandomStream& random) {
  static constexpr auto kSeparators = std::to_array<std::string_view>({"/", "|", ";", "+", "&", "=>"});
  const std::string mark(pick_one(kSeparators, random));
  RuleCase result = plain_case(question);
  result.params["separator"] = mark;
  result.params["count"] = question.items.size();
  result.slots = {{"separator", mark}};
  result.answer = join(question.items, " " + mark + " ");
  return result;
}

const Wordings kNoCommas = {
    .train = {"Do not use any commas.", "Your reply must not contain a comma.",
              "Commas are forbidden in your answers.",
              "Write without commas; use \"and\" between the things.", "Never put a comma in your response.",
              "Answer in full, but leave out all commas.", "The comma key is broken, so answer without it."},
    .dev = {"Keep your answers free of commas."},
    .test = {"Make sure that no comma appears in what you write.", "Respond without a single comma.",
             "You may not use the comma in any answer."}};

const Wordings kBullets = {
    .train = {"Answer with exactly {count} bullet points.", "Your reply must be a list of {count} bullets.",
              "Always respond with {count} bullet points that start with \"- \".",
              "Use {count} bullets in each answer, one thing in each.",
              "Give {count} bullet points and no other text.",
              "Write every answer as {count} lines starting with a dash.",
              "Each response consists of {count} bullet points."},
    .dev = {"Put {count} bullets into every answer."},
    .test = {"The answer has to be {count} bullet points, no more and no fewer.",
             "Respond in bullets, and let there be {count} of them.",
             "Format your output as a list with {count} bullet points."}};

const Wordings kNumberedList = {
    .train = {"Answer with a numbered list.", "Write every list with numbers: 1. 2. 3.",
              "Your reply must be a numbered list, one thing a line.",
              "Number the items of your answer, starting at 1.", "Give each thing its own numbered line.",
              "Respond as a list with numbers in front of the items.",
              "Always list things in the form 1. first 2. second, each on a new line."},
    .dev = {"Use an ordered list that counts from 1."},
    .test = {"Format the answer as a list numbered 1., 2., 3. and so on.",
             "Items are to be numbered and put on separate lines.",
             "Present your answers as numbered lists."}};

const Wordings kSeparator = {
    .train = {"Separate the items of a list with \"{separator}\" and never with commas.",
              "Put \"{separator}\" between the things you list, no commas.",
              "In lists, write \"{separator}\" in place of commas and \"and\".",
              "List things with \"{separator}\" between them and nothing else.",
              "Items in your answer are divided by \"{separator}\", not by commas.",
              "Always join the items by \"{separator}\".",
              "Use \"{separator}\" as the only separator in your answers."},
    .dev = {"Between two items there is always \"{separator}\"."},
    .test = {"The separator for listed things is \"{separator}\"; commas are not used.",
             "When you name several things, split them by \"{separator}\".",
             "Give lists on one line with \"{separator}\" between the entries."}};

}  // namespace

std::vector<Rule> list_rules() {
  return {
      {"no_commas", "No commas", {kList}, kNoCommas, no_commas},
      {"bullets", "N bullet points", {kList}, kBullets, bullets},
      {"numbered_list", "A numbered list", {kList}, kNumberedList, numbered_list},
      {"separator", "A given separator", {kList}, kSeparator, separator},
  };
}

}  // namespace calyrex::data
