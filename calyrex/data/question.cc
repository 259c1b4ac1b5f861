#include "calyrex/data/question.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/data/question_pools.h"

namespace calyrex::data {
namespace {

template <typename Pool>
const auto& pick(const Pool& pool, RandomStream& random) {
  return pool[random.below(pool.size())];
}

/// `count` different entries.
template <typename Pool>
std::vector<std::string> pick_several(const Pool& pool, size_t count, RandomStream& random) {
  std::vector<std::string> chosen;
  while (chosen.size() < count) {
    std::string item(pick(pool, random));
    if (std::find(chosen.begin(), chosen.end(), item) == chosen.end()) chosen.push_back(std::move(item));
  }
  return chosen;
}

using Patterns = std::vector<std::string_view>;

std::string ask(const Patterns& patterns, const std::vector<Slot>& slots, RandomStream& random) {
  return fill(pick(patterns, random), slots);
}

Question color_question(RandomStream& random) {
  const std::string_view name = pick(kNames, random);
  const std::string_view object = pick(kObjects, random);
  const std::string_view color = pick(kColors, random);
  const std::vector<Slot> slots = {{"name", name}, {"object", object}, {"color", color}};
  static const Patterns prompts = {"{name} has a {color} {object}. What color is the {object}?",
                                   "{name} bought a {color} {object} today. What color is it?",
                                   "The {object} of {name} is {color}. Which color does the {object} have?"};
  return {.id = fmt::format("color:{}:{}:{}", name, object, color),
          .kind = QuestionKind::kWord,
          .prompt = ask(prompts, slots, random),
          .title = fill("Color of the {object}", slots),
          .answer = std::string(color),
          .plain = fill("The {object} is {color}.", slots),
          .topic = std::string(object),
          .without_topic = fill("It is {color}.", slots),
          .expected = expect_any({std::string(color)})};
}

Question place_question(RandomStream& random) {
  const std::string_view name = pick(kNames, random);
  const std::string_view object = pick(kObjects, random);
  const std::string_view place = pick(kPlaces, random);
  const std::vector<Slot> slots = {{"name", name}, {"object", object}, {"place", place}};
  static const Patterns prompts = {
      "{name} keeps the {object} in the {place}. Where is the {object}?",
      "{name} left the {object} in the {place}. In which place is the {object} now?",
      "The {object} is in the {place}. Where can {name} find the {object}?"};
  return {.id = fmt::format("place:{}:{}:{}", name, object, place),
          .kind = QuestionKind::kWord,
          .prompt = ask(prompts, slots, random),
          .title = fill("Place of the {object}", slots),
          .answer = std::string(place),
          .plain = fill("The {object} is in the {place}.", slots),
          .topic = std::string(object),
          .without_topic = fill("It is in the {place}.", slots),
          .expected = expect_any({std::string(place)})};
}

Question capital_question(RandomStream& random) {
  const Pair& capital = pick(kCapitals, random);
  const std::vector<Slot> slots = {{"country", capital.key}, {"city", capital.value}};
  static const Patterns prompts = {"What is the capital of {country}?",
                                   "Which city is the capital of {country}?",
                                   "Name the capital of {country}."};
  return {.id = fmt::format("capital:{}", capital.key),
          .kind = QuestionKind::kWord,
          .prompt = ask(prompts, slots, random),
          .title = fill("Capital of {country}", slots),
          .answer = std::string(capital.value),
          .plain = fill("The capital of {country} is {city}.", slots),
          .topic = "capital",
          .without_topic = fill("It is {city}.", slots),
          .expected = expect_any({std::string(capital.value)})};
}

Question opposite_question(RandomStream& random) {
  const Pair& words = pick(kOpposites, random);
  const bool swapped = random.below(2) == 1;
  const std::string_view word = swapped ? words.value : words.key;
  const std::string_view opposite = swapped ? words.key : words.value;
  const std::vector<Slot> slots = {{"word", word}, {"opposite", opposite}};
  static const Patterns prompts = {"What is the opposite of \"{word}\"?",
                                   "Which word is the opposite of {word}?", "Give the opposite of {word}."};
  return {.id = fmt::format("opposite:{}", words.key),
          .kind = QuestionKind::kWord,
          .prompt = ask(prompts, slots, random),
          .title = fill("Opposite of {word}", slots),
          .answer = std::string(opposite),
          .plain = fill("The opposite of {word} is {opposite}.", slots),
          .topic = "opposite",
          .without_topic = fill("It is {opposite}.", slots),
          .expected = expect_any({std::string(opposite)})};
}

Question definition_question(RandomStream& random) {
  const Pair& entry = pick(kDefinitions, random);
  const std::vector<Slot> slots = {{"meaning", entry.key}, {"word", entry.value}};
  static const Patterns prompts = {"What do we call {meaning}?", "Which word means {meaning}?",
                                   "Give the word for {meaning}."};
  return {.id = fmt::format("definition:{}", entry.value),
          .kind = QuestionKind::kWord,
          .prompt = ask(prompts, slots, random),
          .title = "The right word",
          .answer = std::string(entry.value),
          .plain = fill("The word is {word}.", slots),
          .topic = "word",
          .without_topic = fill("It is {word}.", slots),
          .expected = expect_any({std::string(entry.value)})};
}

Question calendar_question(RandomStream& random) {
  const bool days = random.below(2) == 0;
  const size_t size = days ? kDays.size() : kMonths.size();
  const size_t at = random.below(size);
  const std::string_view given = days ? kDays[at] : kMonths[at];
  const std::string_view next = days ? kDays[(at + 1) % size] : kMonths[(at + 1) % size];
  const std::vector<Slot> slots = {{"unit", days ? "day" : "month"}, {"given", given}, {"next", next}};
  static const Patterns prompts = {"Which {unit} comes after {given}?", "What {unit} follows {given}?",
                                   "Name the {unit} right after {given}."};
  return {.id = fmt::format("calendar:{}", given),
          .kind = QuestionKind::kWord,
          .prompt = ask(prompts, slots, random),
          .title = fill("After {given}", slots),
          .answer = std::string(next),
          .plain = fill("The {unit} after {given} is {next}.", slots),
          .topic = std::string(given),
          .without_topic = fill("It is {next}.", slots),
          .expected = expect_any({std::string(next)})};
}

Question glossary_question(RandomStream& random) {
  const std::string_view word = pick(kMadeUpWords, random);
  const std::string_view meaning = pick(kMeanings, random);
  const std::vector<Slot> slots = {{"word", word}, {"meaning", meaning}};
  static const Patterns prompts = {"In our shop a {word} means {meaning}. What is a {word}?",
                                   "We call {meaning} a {word}. What does {word} mean?",
                                   "A {word} is {meaning}. Define the word {word}."};
  return {.id = fmt::format("glossary:{}:{}", word, meaning),
          .kind = QuestionKind::kPhrase,
          .prompt = ask(prompts, slots, random),
          .title = fill("Meaning of {word}", slots),
          .answer = std::string(meaning),
          .plain = fill("A {word} is {meaning}.", slots),
          .topic = std::string(word),
          .without_topic = fill("It is {meaning}.", slots),
          .expected = expect_any({std::string(meaning.substr(meaning.find(' ') + 1))})};
}

/// Rewriting notes into a sentence: every word of it is given.
Question rewriting_question(RandomStream& random) {
  const std::string_view creature = pick(kCreatures, random);
  const std::string_view action = pick(kActions, random);
  const std::string_view spot = pick(kSpots, random);
  const std::vector<Slot> slots = {{"creature", creature}, {"action", action}, {"spot", spot}};
  static const Patterns prompts = {"Rewrite as a sentence: {creature}, {action}, {spot}.",
                                   "Make one sentence of these notes: {creature} / {action} / {spot}.",
                                   "Turn this into a full sentence: {creature} - {action} - {spot}."};
  return {.id = fmt::format("rewrite:{}:{}:{}", creature, action, spot),
          .kind = QuestionKind::kSentence,
          .prompt = ask(prompts, slots, random),
          .title = fill("The {creature}", slots),
          .answer = fill("The {creature} {action} {spot}", slots),
          .plain = fill("The {creature} {action} {spot}.", slots),
          .topic = {},
          .without_topic = {},
          .expected = expect_any({fill("{creature} {action} {spot}", slots)})};
}

ExpectedContent expect_number(int64_t number) {
  return expect_any({std::to_string(number), number_word(number)});
}

Question count_question(RandomStream& random) {
  const std::string_view name = pick(kNames, random);
  const std::string_view things = pick(kCountables, random);
  const int64_t number = 2 + static_cast<int64_t>(random.below(19));
  const std::string digits = std::to_string(number);
  const std::vector<Slot> slots = {{"name", name}, {"things", things}, {"number", digits}};
  static const Patterns prompts = {"{name} has {number} {things}. How many {things} does {name} have?",
                                   "There are {number} {things} on the table. How many {things} are there?",
                                   "{name} counted {number} {things}. How many {things} did {name} count?"};
  return {.id = fmt::format("count:{}:{}:{}", name, things, number),
          .kind = QuestionKind::kNumber,
          .prompt = ask(prompts, slots, random),
          .title = fill("Number of {things}", slots),
          .answer = digits,
          .plain = fill("There are {number} {things}.", slots),
          .topic = std::string(things),
          .without_topic = fill("There are {number}.", slots),
          .spelled = fmt::format("There are {} {}.", number_word(number), things),
          .expected = expect_number(number)};
}

Question sum_question(RandomStream& random) {
  const int64_t first = 1 + static_cast<int64_t>(random.below(10));
  const int64_t second = 1 + static_cast<int64_t>(random.below(10));
  const bool minus = random.below(3) == 0;
  const int64_t a = minus ? first + second : first;
  const int64_t result = minus ? first : first + second;
  const std::string left = std::to_string(a);
  const std::string right = std::to_string(second);
  const std::string total = std::to_string(result);
  const std::vector<Slot> slots = {{"a", left},
                                   {"b", right},
                                   {"sign", minus ? "-" : "+"},
                                   {"verb", minus ? "minus" : "plus"},
                                   {"sum", total}};
  static const Patterns prompts = {"What is {a} {sign} {b}?", "Calculate {a} {sign} {b}.",
                                   "How much is {a} {verb} {b}?"};
  return {.id = fmt::format("sum:{}{}{}", a, minus ? '-' : '+', second),
          .kind = QuestionKind::kNumber,
          .prompt = ask(prompts, slots, random),
          .title = "A sum",
          .answer = total,
          .plain = fill("The result is {sum}.", slots),
          .topic = "result",
          .without_topic = fill("It is {sum}.", slots),
          .spelled = fmt::format("The result is {}.", number_word(result)),
          .expected = expect_number(result)};
}

Question measure_question(RandomStream& random) {
  const std::string_view object = pick(kMeasured, random);
  const std::string number = std::to_string(2 + random.below(98));
  const std::vector<Slot> slots = {{"object", object}, {"number", number}};
  static const Patterns prompts = {"The {object} measures {number}. How long is the {object}?",
                                   "I measured the {object}: {number}. What is its length?",
                                   "The length of the {object} is {number}. How long is it?"};
  return {.id = fmt::format("measure:{}:{}", object, number),
          .kind = QuestionKind::kMeasure,
          .prompt = ask(prompts, slots, random),
          .title = fill("Length of the {object}", slots),
          .answer = number,
          .plain = fill("The {object} is {number} long.", slots),
          .topic = std::string(object),
          .without_topic = fill("It is {number} long.", slots),
          .expected = expect_any({number})};
}

struct ListForm {
  std::string_view prompt;
  std::string_view plain;
  std::string_view title;
};

/// "a rope" -> "rope": the article is no part of what must be named.
std::string without_article(const std::string& item) {
  return item.starts_with("a ") ? item.substr(2) : item;
}

Question list_question(RandomStream& random) {
  static constexpr auto kGoodsForms = std::to_array<ListForm>(
      {{"{name} bought {items}. What did {name} buy?", "{name} bought {items}.", "Shopping list"},
       {"The basket of {name} holds {items}. What is in it?", "It holds {items}.", "The basket"}});
  static constexpr auto kAnimalForms = std::to_array<ListForm>(
      {{"The zoo keeps {items}. Which animals does it keep?", "The zoo keeps {items}.", "The zoo"},
       {"{name} saw {items}. Which animals did {name} see?", "{name} saw {items}.", "Animals"}});
  static constexpr auto kToolForms = std::to_array<ListForm>(
      {{"{name} packed {items}. What did {name} pack?", "{name} packed {items}.", "Packing list"},
       {"In the bag there is {items}. What is in the bag?", "The bag holds {items}.", "The bag"}});
  const std::string_view name = pick(kNames, random);
  const size_t count = 3 + random.below(2);
  const size_t family = random.below(3);
  const ListForm& form = pick(family == 0 ? kGoodsForms : family == 1 ? kAnimalForms : kToolForms, random);
  const auto items = family == 0   ? pick_several(kGoods, count, random)
                     : family == 1 ? pick_several(kAnimals, count, random)
                                   : pick_several(kTools, count, random);
  const std::string listed = join_with_commas(items);
  const std::vector<Slot> slots = {{"name", name}, {"items", listed}};
  std::vector<std::string> named;
  for (const std::string& item : items) named.push_back(without_article(item));
  return {.id = fmt::format("list:{}:{}", name, join(items, ":")),
          .kind = QuestionKind::kList,
          .prompt = fill(form.prompt, slots),
          .title = std::string(form.title),
          .answer = listed,
          .plain = fill(form.plain, slots),
          .topic = {},
          .without_topic = {},
          .items = items,
          .expected = expect_all(named)};
}

struct Family {
  QuestionKind kind;
  uint64_t weight;
  Question (*draw)(RandomStream&);
};

/// Reading questions weigh most: their content is in the question, so a small model can be held to it.
constexpr auto kFamilies = std::to_array<Family>({{QuestionKind::kWord, 6, color_question},
                                                  {QuestionKind::kWord, 6, place_question},
                                                  {QuestionKind::kWord, 2, capital_question},
                                                  {QuestionKind::kWord, 1, opposite_question},
                                                  {QuestionKind::kWord, 1, definition_question},
                                                  {QuestionKind::kWord, 1, calendar_question},
                                                  {QuestionKind::kPhrase, 3, glossary_question},
                                                  {QuestionKind::kSentence, 2, rewriting_question},
                                                  {QuestionKind::kNumber, 4, count_question},
                                                  {QuestionKind::kNumber, 1, sum_question},
                                                  {QuestionKind::kMeasure, 2, measure_question},
                                                  {QuestionKind::kList, 4, list_question}});

}  // namespace

std::string_view split_name(Split split) {
  switch (split) {
    case Split::kTrain:
      return "train";
    case Split::kDev:
      return "dev";
    case Split::kTest:
      return "test";
  }
  return "?";
}

Split split_of(std::string_view question_id) {
  switch (RandomStream(/*seed=*/0, question_id).below(10)) {
    case 0:
      return Split::kTest;
    case 1:
      return Split::kDev;
    default:
      return Split::kTrain;
  }
}

Question draw_question(const std::vector<QuestionKind>& kinds, Split split, RandomStream& random) {
  uint64_t total = 0;
  for (const Family& family : kFamilies) {
    if (std::count(kinds.begin(), kinds.end(), family.kind) > 0) total += family.weight;
  }
  CALYREX_CHECK(total > 0);
  while (true) {
    uint64_t at = random.below(total);
    for (const Family& family : kFamilies) {
      if (std::count(kinds.begin(), kinds.end(), family.kind) == 0) continue;
      if (at < family.weight) {
        Question question = family.draw(random);
        if (split_of(question.id) == split) return question;
        break;
      }
      at -= family.weight;
    }
  }
}

std::string number_word(int64_t number) {
  static constexpr auto kWords = std::to_array<std::string_view>(
      {"zero",     "one",     "two",     "three",     "four",     "five",     "six",
       "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",   "thirteen",
       "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"});
  CALYREX_CHECK(number >= 0 && number < static_cast<int64_t>(kWords.size()));
  return std::string(kWords[static_cast<size_t>(number)]);
}

std::string join_with_commas(const std::vector<std::string>& items) {
  CALYREX_CHECK(items.size() >= 3);
  return join({items.begin(), items.end() - 1}, ", ") + ", and " + items.back();
}

std::string join(const std::vector<std::string>& items, std::string_view separator) {
  return fmt::format("{}", fmt::join(items, separator));
}

std::string fill(std::string_view pattern, const std::vector<Slot>& slots) {
  std::string result;
  for (size_t at = 0; at < pattern.size();) {
    const size_t end = pattern[at] == '{' ? pattern.find('}', at) : std::string_view::npos;
    if (end == std::string_view::npos) {
      result += pattern[at++];
      continue;
    }
    const std::string_view name = pattern.substr(at + 1, end - at - 1);
    if (name.empty() || name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") != std::string_view::npos) {
      result += pattern[at++];
      continue;
    }
    const auto slot = std::find_if(slots.begin(), slots.end(), [&](const Slot& s) { return s.name == name; });
    CALYREX_CHECK(slot != slots.end(), "no value for {{{}}} in \"{}\"", name, pattern);
    result += slot->value;
    at = end + 1;
  }
  return result;
}

}  // namespace calyrex::data
