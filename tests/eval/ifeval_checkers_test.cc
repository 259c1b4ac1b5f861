// Hand-computed cases of every instruction, of strict and loose, of hostile answers and of arguments.
#include <ctime>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "calyrex/base/error.h"
#include "calyrex/base/random.h"
#include "calyrex/eval/ifeval/grade.h"
#include "calyrex/eval/ifeval/resources.h"

namespace calyrex::ifeval {
namespace {

struct CheckCase {
  const char* id;
  const char* arguments;
  const char* answer;
  bool followed;
};

/// Per instruction the rule's limits and its surprises.
constexpr CheckCase kCases[] = {
    {"keywords:existence", R"({"keywords": ["moon", "Sun"]})", "MOONLIGHT and sunset", true},
    {"keywords:existence", R"({"keywords": ["moon", "sun"]})", "moon", false},
    {"keywords:existence", R"({"keywords": ["a.c"]})", "abc", true},
    {"keywords:existence", R"({"keywords": ["a\\.c"]})", "abc", false},
    {"keywords:frequency", R"({"keyword": " cat ", "frequency": 2, "relation": "at least"})", "Concat a Cat",
     true},
    {"keywords:frequency", R"({"keyword": "cat", "frequency": 2, "relation": "less than"})", "cat cat",
     false},
    {"keywords:frequency", R"({"keyword": "C++", "frequency": 1, "relation": "at least"})", "c", true},
    {"keywords:forbidden_words", R"({"forbidden_words": ["he"]})", "The shed", true},
    {"keywords:forbidden_words", R"({"forbidden_words": ["he"]})", "so HE said", false},
    {"keywords:forbidden_words", R"({"forbidden_words": ["caf\u00e9"]})", "au CAFÉ!", false},
    {"keywords:forbidden_words", R"({"forbidden_words": ["caf"]})", "café", true},
    {"keywords:letter_frequency", R"({"letter": "Q", "let_frequency": 2, "let_relation": "at least"})", "qQ",
     true},
    {"keywords:letter_frequency", R"({"letter": "!", "let_frequency": 2, "let_relation": "less than"})", "!!",
     false},
    {"keywords:letter_frequency", R"({"letter": "i", "let_frequency": 1, "let_relation": "at least"})", "İ",
     true},
    {"language:response_language", R"({"language": "fr"})", "Le chat dort sur la chaise de la cuisine.",
     true},
    {"language:response_language", R"({"language": "de"})", "The cat sleeps on the kitchen chair.", false},
    {"language:response_language", R"({"language": "de"})", "12345", true},
    {"length_constraints:number_sentences", R"({"num_sentences": 2, "relation": "at least"})",
     "Dr. Who left. Ok?", true},
    {"length_constraints:number_sentences", R"({"num_sentences": 2, "relation": "less than"})",
     "At 3 p.m. we ate.", true},
    {"length_constraints:number_paragraphs", R"({"num_paragraphs": 2})", "one\n***\ntwo", true},
    {"length_constraints:number_paragraphs", R"({"num_paragraphs": 2})", "***one *** two***", true},
    {"length_constraints:number_paragraphs", R"({"num_paragraphs": 2})", "one\n***\n\n***\ntwo", false},
    {"length_constraints:number_paragraphs", R"({"num_paragraphs": 2})", "one\n******\ntwo", false},
    {"length_constraints:number_words", R"({"num_words": 6, "relation": "at least"})",
     "Hyphenated-word has two word counts.", true},
    {"length_constraints:number_words", R"({"num_words": 3, "relation": "less than"})", "don't stop", false},
    {"length_constraints:nth_paragraph_first_word",
     R"({"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Yes"})", "No.\n\n'\"YES, it is", true},
    {"length_constraints:nth_paragraph_first_word",
     R"({"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "yes"})", "No.\n\n\"'yes\" it is", false},
    {"length_constraints:nth_paragraph_first_word",
     R"({"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "yes"})", "No.\n\n\n\nyes", false},
    {"length_constraints:nth_paragraph_first_word",
     R"({"num_paragraphs": 1, "nth_paragraph": 1, "first_word": "it"})", "it's", true},
    {"detectable_content:number_placeholders", R"({"num_placeholders": 2})", "[a] [[b]]", true},
    {"detectable_content:number_placeholders", R"({"num_placeholders": 1})", "[a\n]", false},
    {"detectable_content:postscript", R"({"postscript_marker": "P.S."})", "So p. s. bye", true},
    {"detectable_content:postscript", R"({"postscript_marker": "P.P.S"})", "P.P. S", true},
    {"detectable_content:postscript", R"({"postscript_marker": "P.P.S"})", "P.S.", false},
    {"detectable_content:postscript", R"({"postscript_marker": "PS:"})", "ps: bye", true},
    {"detectable_format:number_bullet_lists", R"({"num_bullets": 3})", "* a\n  - b\n*c", true},
    {"detectable_format:number_bullet_lists", R"({"num_bullets": 1})", "** a\n- b", true},
    {"detectable_format:number_bullet_lists", R"({"num_bullets": 2})", "*\n- b\n- c", false},
    {"detectable_format:constrained_response", "{}", "well: My answer is maybe. ok", true},
    {"detectable_format:constrained_response", "{}", "my answer is yes.", false},
    {"detectable_format:number_highlighted_sections", R"({"num_highlights": 2})", "*a* and *b*", true},
    {"detectable_format:number_highlighted_sections", R"({"num_highlights": 1})", "**a**", true},
    {"detectable_format:number_highlighted_sections", R"({"num_highlights": 1})", "* * ** ** *a\nb*", false},
    {"detectable_format:multiple_sections", R"({"section_spliter": "Section", "num_sections": 2})",
     "Section 1 a Section2b", true},
    {"detectable_format:multiple_sections", R"({"section_spliter": "Section", "num_sections": 1})",
     "SECTION 1", false},
    {"detectable_format:json_format", "{}", "```json\n{\"a\": [1, NaN, null]}\n```", true},
    {"detectable_format:json_format", "{}", "\"text\"", true},
    {"detectable_format:json_format", "{}", "{'a': 1}", false},
    {"detectable_format:json_format", "{}", "{\"a\": 1,}", false},
    {"detectable_format:title", "{}", "see <<b>> here", true},
    {"detectable_format:title", "{}", "<<  >> <<<>>>", true},
    {"detectable_format:title", "{}", "<< >>", false},
    {"detectable_format:title", "{}", "<<a\nb>>", false},
    {"combination:two_responses", "{}", "one\n******\ntwo", true},
    {"combination:two_responses", "{}", "******one******two******", true},
    {"combination:two_responses", "{}", "same ****** same", false},
    {"combination:two_responses", "{}", "a******b******c", false},
    {"combination:repeat_prompt", R"({"prompt_to_repeat": " Say HI "})", "  say hi there", true},
    {"combination:repeat_prompt", R"({"prompt_to_repeat": "Say hi"})", "I say hi", false},
    {"startend:end_checker", R"({"end_phrase": " The End. "})", "\"so the end.\"\n", true},
    {"startend:end_checker", R"({"end_phrase": "the end"})", "the end.", false},
    {"startend:quotation", "{}", " \"a\" ", true},
    {"startend:quotation", "{}", "\"", false},
    {"startend:quotation", "{}", "\u201ca\u201d", false},
    {"change_case:capital_word_frequency", R"({"capital_frequency": 3, "capital_relation": "at least"})",
     "WE ARE-HERE now", false},
    {"change_case:capital_word_frequency", R"({"capital_frequency": 3, "capital_relation": "at least"})",
     "WE CANNOT stop", true},
    {"change_case:english_capital", "{}", "THE CAT SLEEPS", true},
    {"change_case:english_capital", "{}", "THE CAT SLEEPs", false},
    {"change_case:english_capital", "{}", "123", false},
    {"change_case:english_lowercase", "{}", "the cat sleeps on the kitchen chair.", true},
    {"change_case:english_lowercase", "{}", "le chat dort sur la chaise de la cuisine.", false},
    {"punctuation:no_comma", "{}", "a；b，c、", true},
    {"punctuation:no_comma", "{}", "a,b", false},
};

TEST(IfevalCheckers, HandComputedCases) {
  std::set<std::string> covered;
  for (const CheckCase& given : kCases) {
    const Instruction instruction(given.id, parse_json(given.arguments, "case"));
    covered.insert(given.id);
    EXPECT_EQ(instruction.check(Answer(decode_utf8(given.answer))),
              given.followed ? Followed::kYes : Followed::kNo)
        << given.id << " " << given.arguments << " over " << given.answer;
  }
  const std::vector<std::string> ids = instruction_ids();
  EXPECT_EQ(covered, std::set<std::string>(ids.begin(), ids.end()));
  EXPECT_EQ(ids.size(), 25u);
}

Followed strict_of(const Instruction& instruction, std::string_view answer) {
  return grade_response({instruction}, answer).strict.front();
}

Followed loose_of(const Instruction& instruction, std::string_view answer) {
  return grade_response({instruction}, answer).loose.front();
}

TEST(IfevalGrade, LooseTriesEightVariants) {
  const Instruction no_comma("punctuation:no_comma", Json::object());
  EXPECT_EQ(strict_of(no_comma, "Sure, here:\nfine"), Followed::kNo);
  EXPECT_EQ(loose_of(no_comma, "Sure, here:\nfine"), Followed::kYes);
  EXPECT_EQ(loose_of(no_comma, "fine\nHope it helps, bye"), Followed::kYes);
  EXPECT_EQ(loose_of(no_comma, "Sure, here:\nfine\nbye, now"), Followed::kYes);
  EXPECT_EQ(loose_of(no_comma, "a\nb, c\nd"), Followed::kNo);
  const Instruction quotation("startend:quotation", Json::object());
  EXPECT_EQ(strict_of(quotation, "**\"a\"**"), Followed::kNo);
  EXPECT_EQ(loose_of(quotation, "**\"a\"**"), Followed::kYes);
}

TEST(IfevalGrade, BlankResponsesFollowNothing) {
  const Instruction no_comma("punctuation:no_comma", Json::object());
  for (const char* blank : {"", "  \n\t", "\u00a0\u2028\x1c"}) {
    EXPECT_EQ(strict_of(no_comma, blank), Followed::kNo);
    EXPECT_EQ(loose_of(no_comma, blank), Followed::kNo);
  }
  EXPECT_EQ(loose_of(no_comma, "a, b"), Followed::kNo);  // the dropped lines leave nothing
  EXPECT_EQ(strict_of(no_comma, "**"), Followed::kYes);
}

TEST(IfevalGrade, EndlessPatternIsUndecided) {
  const Instruction endless("keywords:existence", parse_json(R"({"keywords": ["(a|aa)+$"]})", "case"));
  EXPECT_EQ(strict_of(endless, std::string(5000, 'a') + "b"), Followed::kUndecided);
  EXPECT_EQ(loose_of(endless, std::string(5000, 'a') + "b"), Followed::kUndecided);
  EXPECT_EQ(loose_of(endless, std::string(5000, 'a') + "b\naa"), Followed::kYes);
}

std::string fault(std::string_view id, std::string_view arguments) {
  try {
    Instruction(id, parse_json(arguments, "case"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "none";
}

TEST(IfevalInstruction, FaultsNameIdAndArgument) {
  EXPECT_EQ(fault("keywords:existance", "{}"),
            "there is no instruction 'keywords:existance'; did you mean 'keywords:existence'?");
  EXPECT_EQ(fault("keywords:existence", "{}"),
            "keywords:existence: keywords is missing: expected a list of strings that is not empty");
  EXPECT_EQ(fault("keywords:existence", R"({"keywords": ["a("]})"),
            "keywords:existence: regular expression 'a(': missing ), unterminated subpattern at position 2");
  EXPECT_EQ(fault("keywords:frequency", R"({"keyword": "a", "frequency": -1, "relation": "at least"})"),
            "keywords:frequency: frequency: expected a whole number of at least 0, got -1");
  EXPECT_EQ(fault("keywords:frequency", R"({"keyword": "a", "frequency": 1, "relation": "at most"})"),
            "keywords:frequency: relation: expected \"less than\" or \"at least\", got \"at most\"");
  EXPECT_EQ(fault("keywords:letter_frequency",
                  R"({"letter": "ab", "let_frequency": 1, "let_relation": "at least"})"),
            "keywords:letter_frequency: letter: expected one character, got 'ab'");
  EXPECT_EQ(fault("length_constraints:nth_paragraph_first_word",
                  R"({"num_paragraphs": 1, "nth_paragraph": 2, "first_word": "a"})"),
            "length_constraints:nth_paragraph_first_word: nth_paragraph: 2 of 1 paragraphs");
  EXPECT_EQ(fault("punctuation:no_comma", R"({"count": 1})"),
            "punctuation:no_comma: count: no such argument");
  EXPECT_EQ(fault("punctuation:no_comma", "[]"), "punctuation:no_comma: expected an object of arguments");
  EXPECT_EQ(fault("punctuation:no_comma", R"({"keywords": null, "num_words": null})"), "none");
}

/// One instruction of each id.
std::vector<Instruction> all_instructions() {
  std::vector<Instruction> all;
  for (const CheckCase& given : kCases) {
    if (all.empty() || all.back().id() != given.id)
      all.emplace_back(given.id, parse_json(given.arguments, "case"));
  }
  return all;
}

TEST(IfevalGrade, LargeAnswersTakeLinearTime) {
  const std::vector<Instruction> instructions = all_instructions();
  const std::vector<std::string> units = {
      "[", "*", ". ", "\n", "a-b.", "\"'`", "<<", "a@", "p.", "\xf0\x9f\x8e\x89", "The U.S. is big. "};
  for (const std::string& unit : units) {
    std::string answer;
    while (answer.size() < 1'000'000) answer += unit;
    const std::clock_t start = std::clock();
    grade_response(instructions, answer);
    // 25 instructions over 8 variants of a megabyte: a quadratic step would take hours.
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 60.0) << unit;
  }
  const Instruction sentences("length_constraints:number_sentences",
                              parse_json(R"({"num_sentences": 3, "relation": "at least"})", "case"));
  EXPECT_EQ(strict_of(sentences, std::string(10'000'000, 'x') + ". A. Big one. It ends."), Followed::kYes);
}

TEST(IfevalGrade, AnyBytesAreGraded) {
  const std::vector<Instruction> instructions = all_instructions();
  const std::string pieces[] = {
      "\xed\xa0\x80", std::string(1, '\0'), "\xff\xfe", "\xc3", ". ", "***", "<<", ">>", "[",  "]",
      "\n",           "\xf4\x90\x80\x80",   "a",        "B",    "\"", "```", "{",  "1",  "- ", ",",
      "'s ",          "\xe2\x80\x9c"};
  RandomStream random(1, "ifeval_bytes");
  for (int round = 0; round < 300; ++round) {
    std::string answer;
    for (uint64_t left = random.below(40); left > 0; --left)
      answer += pieces[random.below(std::size(pieces))];
    const InstructionVerdicts verdicts = grade_response(instructions, answer);
    ASSERT_EQ(verdicts.strict.size(), instructions.size());
    for (size_t i = 0; i < instructions.size(); ++i) {
      EXPECT_TRUE(verdicts.strict[i] != Followed::kYes || verdicts.loose[i] == Followed::kYes);
    }
  }
}

TEST(IfevalResources, MissingAndDamagedFilesAreNamed) {
  const auto error_of = [](const auto& read) {
    try {
      read();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(error_of([] { PunktModel::read("nowhere/punkt-english.txt"); }),
            "nowhere/punkt-english.txt is not there; ./run build makes it");
  EXPECT_EQ(error_of([] { LanguageProfiles::open("nowhere/language-profiles.bin"); }),
            "nowhere/language-profiles.bin is not there; ./run build makes it");
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const std::filesystem::path path = folder / fmt::format("calyrex-ifeval-{}", ::getpid());
  write_file_atomically(path, "seen\t999\tword\n");
  EXPECT_THAT(error_of([&] { PunktModel::read(path); }), testing::HasSubstr(":1: expected abbreviation"));
  write_file_atomically(path, "CLXLANG1 and no more");
  EXPECT_THAT(error_of([&] { LanguageProfiles::open(path); }), testing::HasSubstr("the file is too short"));
  write_file_atomically(path, "something else altogether");
  EXPECT_THAT(error_of([&] { LanguageProfiles::open(path); }),
              testing::HasSubstr("no file of language profiles"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace calyrex::ifeval
