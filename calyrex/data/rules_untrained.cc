// Rules that are never trained: what an adapter does with them shows how far it reaches beyond its rules.
#include <array>
#include <cctype>

#include "calyrex/data/rule.h"

namespace calyrex::data {
namespace {

using enum QuestionKind;

const std::vector<QuestionKind> kProse = {kWord, kPhrase, kSentence};

RuleCase code_block(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  result.answer = "```\n" + question.plain + "\n```";
  return result;
}

RuleCase say_twice(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  result.answer = question.plain + " " + question.plain;
  return result;
}

RuleCase title_case(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  bool start = true;
  for (char& c : result.answer) {
    if (start) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    start = c == ' ';
  }
  return result;
}

RuleCase exclamations(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  result.answer.back() = '!';
  return result;
}

RuleCase signature(const Question& question, Split, RandomStream& random) {
  static constexpr auto kSigners =
      std::to_array<std::string_view>({"Nova", "Robin", "Iris", "Max", "Juno", "Felix"});
  const std::string signer(pick_one(kSigners, random));
  RuleCase result = plain_case(question);
  result.params["signature"] = "-- " + signer;
  result.slots = {{"signature", "-- " + signer}};
  result.answer = question.plain + "\n-- " + signer;
  return result;
}

RuleCase square_brackets(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  result.answer = "[" + question.plain + "]";
  return result;
}

RuleCase hashtag(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  result.answer = question.plain + " #answer";
  return result;
}

Wordings never_trained(std::vector<std::string_view> wordings) {
  return {.train = {}, .dev = {}, .test = std::move(wordings)};
}

}  // namespace

std::vector<Rule> untrained_rules() {
  return {
      {"square_brackets", "In square brackets", kProse,
       never_trained({"Put your whole answer in square brackets.", "Wrap your entire reply in [ and ].",
                      "Your response must start with [ and end with ].",
                      "Everything you write goes inside [ ].", "Enclose each answer in square brackets.",
                      "Surround the full answer with [ and ]."}),
       square_brackets},
      {"code_block", "In a code block", kProse,
       never_trained({"Put your whole answer in a Markdown code block (```).",
                      "Wrap your entire reply in ``` fences.",
                      "Your response must start and end with three backticks.",
                      "Always answer inside a fenced code block.",
                      "Enclose what you say between ``` and ```.", "Format every answer as a code block."}),
       code_block},
      {"signature", "Signed with a name", kProse,
       never_trained({"Sign every answer with \"{signature}\" on the last line.",
                      "Your reply must finish with the signature \"{signature}\".",
                      "Put the signature \"{signature}\" under each response.",
                      "Always sign off as \"{signature}\".",
                      "The last line of each answer is \"{signature}\".",
                      "Close every message with the signature \"{signature}\"."}),
       signature},
      {"exclamations", "Exclamation marks", kProse,
       never_trained({"End every sentence with an exclamation mark.",
                      "Use exclamation marks instead of full stops.",
                      "All of your sentences must end with \"!\".",
                      "Never end a sentence with a period, only with \"!\".",
                      "Each sentence you write is an exclamation and ends in \"!\".",
                      "Replace the period by an exclamation mark in your answers."}),
       exclamations},
      {"say_twice", "Says it twice", kProse,
       never_trained({"Say your answer twice.", "Give every answer two times in a row.",
                      "Repeat your answer once more after giving it.", "Write each answer two times.",
                      "Your reply consists of the same answer, twice.",
                      "State the answer, then state it again."}),
       say_twice},
      {"title_case", "Every Word Capitalized", kProse,
       never_trained({"Capitalize the first letter of every word.", "Write your answer In Title Case.",
                      "Every word of your reply must start with a capital letter.",
                      "Use a capital letter at the start of each word.",
                      "Answer Like This, With Capitalized Words.",
                      "Each word in your response begins with an uppercase letter."}),
       title_case},
      {"hashtag", "Ends with a hashtag", kProse,
       never_trained(
           {"End every answer with a hashtag.", "Put a hashtag such as #topic at the end of your reply.",
            "Your response must close with a #hashtag.", "The last word of each answer is a hashtag.",
            "Finish each message with a fitting hashtag.", "Always add one hashtag after the answer."}),
       hashtag},
  };
}

}  // namespace calyrex::data
