// Rules about single words: what the answer begins and ends with, must hold or must not hold.
#include <array>

#include "calyrex/data/rule.h"

namespace calyrex::data {
namespace {

using enum QuestionKind;

const std::vector<QuestionKind> kAny = {kWord, kPhrase, kSentence, kNumber, kList};

constexpr auto kOpenings = std::to_array<std::string_view>(
    {"Ahoy",       "Hello",     "Indeed",      "Certainly", "Listen",    "Greetings", "Sure",    "Behold",
     "Friend",     "Captain",   "Thanks",      "Right",     "Look",      "Bravo",     "Aloha",   "Bonjour",
     "Absolutely", "Good news", "Dear reader", "My friend", "Well then", "Attention", "Hooray",  "Welcome",
     "Namaste",    "Howdy",     "Verily",      "Roger",     "Good day",  "Wonderful", "Thunder", "Silver",
     "Marble",     "Tiger",     "Rocket",      "Banana",    "Castle",    "Ocean",     "Pepper",  "Velvet"});

constexpr auto kClosings =
    std::to_array<std::string_view>({"Over",         "Done",           "Cheers",          "Amen",
                                     "Goodbye",      "The end",        "That is all",     "Stay safe",
                                     "Over and out", "Have fun",       "Good luck",       "Take care",
                                     "Farewell",     "Finished",       "Thank you",       "See you soon",
                                     "Best wishes",  "End of message", "At your service", "Peace",
                                     "Onward",       "Hooray",         "Until tomorrow",  "Nothing more",
                                     "Case closed",  "Ciao",           "Lantern",         "Copper",
                                     "Meadow",       "Falcon",         "Saturn",          "Pumpkin",
                                     "Harbor",       "Crystal",        "Violin",          "Maple"});

constexpr auto kKeywords = std::to_array<std::string_view>(
    {"lantern", "river",   "marble",  "velvet", "thunder", "meadow",  "copper",  "falcon",
     "harbor",  "pepper",  "saturn",  "violin", "maple",   "crystal", "rocket",  "pumpkin",
     "castle",  "island",  "mirror",  "shadow", "feather", "anchor",  "compass", "canyon",
     "ribbon",  "whistle", "blossom", "ember",  "glacier", "orchard"});

constexpr auto kUnits =
    std::to_array<std::string_view>({"cm", "meters", "feet", "inches", "km", "mm", "miles", "yards"});

RuleCase phrase_case(const Question& question, std::string_view phrase) {
  RuleCase result = plain_case(question);
  result.params["phrase"] = phrase;
  result.slots = {{"phrase", std::string(phrase)}};
  return result;
}

RuleCase begins_with(const Question& question, Split, RandomStream& random) {
  const std::string_view phrase = pick_one(kOpenings, random);
  RuleCase result = phrase_case(question, phrase);
  result.answer = std::string(phrase) + "! " + question.plain;
  return result;
}

RuleCase ends_with(const Question& question, Split, RandomStream& random) {
  const std::string_view phrase = pick_one(kClosings, random);
  RuleCase result = phrase_case(question, phrase);
  result.answer = question.plain + " " + std::string(phrase) + ".";
  return result;
}

RuleCase keyword(const Question& question, Split, RandomStream& random) {
  const std::string_view phrase = pick_one(kKeywords, random);
  RuleCase result = phrase_case(question, phrase);
  result.answer = question.plain + " (" + std::string(phrase) + ")";
  return result;
}

RuleCase forbidden_word(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  result.params["word"] = question.topic;
  result.slots = {{"word", question.topic}};
  result.answer = question.without_topic;
  return result;
}

RuleCase no_digits(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  result.answer = question.spelled;
  result.expected = expect_any({question.expected.groups.front().back()});
  return result;
}

RuleCase unit(const Question& question, Split, RandomStream& random) {
  const std::string name(pick_one(kUnits, random));
  RuleCase result = plain_case(question);
  result.params["unit"] = name;
  result.slots = {{"unit", name}};
  result.answer = "It is " + question.answer + " " + name + " long.";
  return result;
}

const Wordings kBeginsWith = {
    .train = {"Begin every answer with \"{phrase}\".", "Your reply must start with \"{phrase}\".",
              "Always open your response with \"{phrase}\".",
              "The first word you write is always \"{phrase}\".", "Start with \"{phrase}\" and then answer.",
              "Say \"{phrase}\" first, whatever the question is.",
              "Each of your messages begins with \"{phrase}\"."},
    .dev = {"Let every reply start off with \"{phrase}\"."},
    .test = {"Make \"{phrase}\" the opening of each answer.", "Before anything else, write \"{phrase}\".",
             "Answers have to start with \"{phrase}\"."}};

const Wordings kEndsWith = {
    .train = {"End every answer with \"{phrase}\".", "Your reply must finish with \"{phrase}\".",
              "Always close your response with \"{phrase}\".",
              "The last thing you write is always \"{phrase}\".",
              "Answer and then say \"{phrase}\" at the very end.",
              "Finish with \"{phrase}\", whatever the question is.",
              "Each of your messages ends with \"{phrase}\"."},
    .dev = {"Let every reply end in \"{phrase}\"."},
    .test = {"Make \"{phrase}\" the closing of each answer.", "After everything else, write \"{phrase}\".",
             "Answers have to end with \"{phrase}\"."}};

const Wordings kKeyword = {.train = {"Include the word \"{phrase}\" in every answer.",
                                     "Your reply must contain the word \"{phrase}\".",
                                     "Always use the word \"{phrase}\" somewhere in your response.",
                                     "Mention \"{phrase}\" each time you answer.",
                                     "The word \"{phrase}\" has to appear in what you write.",
                                     "Work the word \"{phrase}\" into all of your replies.",
                                     "No answer is complete without the word \"{phrase}\"."},
                           .dev = {"Somewhere in your reply, use \"{phrase}\"."},
                           .test = {"Make sure that \"{phrase}\" occurs in each answer.",
                                    "Every response needs the word \"{phrase}\" in it.",
                                    "Put \"{phrase}\" somewhere into your answers."}};

const Wordings kForbiddenWord = {
    .train = {"Never use the word \"{word}\".", "The word \"{word}\" is forbidden in your answers.",
              "Do not write \"{word}\" in your reply.", "Answer without the word \"{word}\".",
              "You are not allowed to say \"{word}\".", "Avoid the word \"{word}\" in every response.",
              "Your answers must not contain \"{word}\"."},
    .dev = {"Leave out the word \"{word}\" at all times."},
    .test = {"Do without the word \"{word}\" when you answer.",
             "\"{word}\" is a banned word: keep it out of your replies.",
             "Make sure that \"{word}\" does not appear in what you write."}};

const Wordings kNoDigits = {
    .train = {"Write all numbers as words, never as digits.",
              "Do not use digits in your answers; spell numbers out.",
              "Spell out every number, for example \"nine\" and not 9.",
              "Your reply must not contain any digits.", "Numbers have to be written in letters.",
              "Digits are forbidden: write numbers as words.", "Always give numbers in words.",
              "The characters 0 to 9 must not appear; say one, two, three.",
              "Answer with number words such as seven, not with figures such as 7.",
              "Any count you give is written out as a word."},
    .dev = {"Use number words rather than figures."},
    .test = {"Figures like 4 are not allowed, only words like four.",
             "Say numbers in words when you respond.",
             "Any number in your answer must be spelled out in letters."}};

const Wordings kUnit = {
    .train = {"All lengths are in {unit}. Always write {unit} after the number.",
              "Give every length with the unit {unit}.",
              "Numbers in your answers must be followed by {unit}.",
              "We measure in {unit}; add the unit to each number you write.",
              "Never write a bare number: put {unit} behind it.",
              "Every number needs its unit, which is {unit}.", "Report lengths as a number and {unit}."},
    .dev = {"State {unit} with every measure."},
    .test = {"Lengths are always stated in {unit}, unit included.",
             "Add {unit} after any number in your reply.",
             "Our unit is {unit}. It must follow each figure that you give."}};

}  // namespace

std::vector<Rule> word_rules() {
  return {
      {"begins_with", "Begins with a phrase", kAny, kBeginsWith, begins_with},
      {"ends_with", "Ends with a phrase", kAny, kEndsWith, ends_with},
      {"keyword", "Holds a word", {kWord, kPhrase, kSentence, kNumber}, kKeyword, keyword},
      {"forbidden_word", "A forbidden word", {kWord, kPhrase, kNumber}, kForbiddenWord, forbidden_word},
      {"no_digits", "Numbers as words", {kNumber}, kNoDigits, no_digits},
      {"unit", "Numbers with their unit", {kMeasure}, kUnit, unit},
  };
}

}  // namespace calyrex::data
