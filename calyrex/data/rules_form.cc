// Rules about the form of the whole answer.
#include <array>

#include "calyrex/data/rule.h"
#include "calyrex/data/unicode.h"

namespace calyrex::data {
namespace {

using enum QuestionKind;

const std::vector<QuestionKind> kAny = {kWord, kPhrase, kSentence, kNumber, kList};
const std::vector<QuestionKind> kProse = {kWord, kPhrase, kSentence};
const std::vector<QuestionKind> kShort = {kWord, kNumber};

RuleCase upper_case(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  result.answer = to_upper(question.plain);
  return result;
}

RuleCase lower_case(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  result.answer = to_lower(question.plain);
  return result;
}

RuleCase json_key(const Question& question, Split, RandomStream& random) {
  static constexpr auto kKeys =
      std::to_array<std::string_view>({"answer", "result", "reply", "value", "output", "response", "data",
                                       "text", "message", "solution", "info", "content"});
  const std::string key(pick_one(kKeys, random));
  RuleCase result = plain_case(question);
  result.params["key"] = key;
  result.slots = {{"key", key}};
  result.answer = "{\"" + key + "\": \"" + question.answer + "\"}";
  return result;
}

RuleCase quoted(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  result.answer = "\"" + question.plain + "\"";
  return result;
}

RuleCase tags(const Question& question, Split, RandomStream& random) {
  static constexpr auto kTags = std::to_array<std::string_view>(
      {"answer", "reply", "result", "output", "response", "final", "text", "note", "box", "say"});
  const std::string tag(pick_one(kTags, random));
  RuleCase result = plain_case(question);
  result.params["tag"] = tag;
  result.slots = {{"tag", tag}};
  result.answer = "<" + tag + ">" + question.plain + "</" + tag + ">";
  return result;
}

RuleCase framed_case(const Question& question, std::string_view prefix, std::string_view suffix,
                     std::string_view placeholder) {
  RuleCase result = plain_case(question);
  result.params["prefix"] = prefix;
  result.params["suffix"] = suffix;
  result.slots = {{"form", std::string(prefix) + std::string(placeholder) + std::string(suffix)}};
  result.answer = std::string(prefix) + question.answer + std::string(suffix);
  return result;
}

RuleCase fixed_format(const Question& question, Split, RandomStream& random) {
  static constexpr auto kFrames =
      std::to_array<std::pair<std::string_view, std::string_view>>({{"RESULT: ", " | STATUS: ok"},
                                                                    {"Answer >> ", " << end"},
                                                                    {"[REPLY] ", " [END]"},
                                                                    {"*** ", " ***"},
                                                                    {"A: ", " | Source: user"},
                                                                    {"== ", " =="},
                                                                    {"Report: ", " / checked"},
                                                                    {"-> ", " <-"},
                                                                    {"Item: ", " ; closed"},
                                                                    {"DATA = ", " ;"}});
  const auto& [prefix, suffix] = pick_one(kFrames, random);
  return framed_case(question, prefix, suffix, "...");
}

RuleCase answer_sentence(const Question& question, Split, RandomStream& random) {
  static constexpr auto kLeads =
      std::to_array<std::string_view>({"My answer is ", "I would say ", "The solution is ", "It must be ",
                                       "My reply is ", "I believe it is ", "My guess is ", "I choose "});
  return framed_case(question, pick_one(kLeads, random), ".", "X");
}

RuleCase title(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  result.answer = "<<" + question.title + ">>\n" + question.plain;
  return result;
}

RuleCase postscript(const Question& question, Split, RandomStream& random) {
  static constexpr auto kMarkers = std::to_array<std::string_view>({"P.S.", "N.B.", "Note:"});
  const std::string marker(pick_one(kMarkers, random));
  RuleCase result = plain_case(question);
  result.params["marker"] = marker;
  result.slots = {{"marker", marker}};
  result.answer = question.plain + "\n" + marker + " Have a nice day.";
  return result;
}

RuleCase bold(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  result.answer = "**" + question.answer + "**";
  return result;
}

RuleCase sentence_count(const Question& question, Split, RandomStream& random) {
  const int64_t count = 2 + static_cast<int64_t>(random.below(2));
  RuleCase result = plain_case(question);
  result.params["count"] = count;
  result.slots = {{"count", number_word(count)}};
  result.answer = question.plain + " I hope this helps.";
  if (count == 3) result.answer += " Ask me again any time.";
  return result;
}

RuleCase one_word(const Question& question, Split, RandomStream&) {
  RuleCase result = plain_case(question);
  result.answer = question.answer;
  return result;
}

const Wordings kUpperCase = {
    .train =
        {"Always answer in capital letters.", "Write your whole reply in uppercase.",
         "Use only capital letters when you respond.",
         "Every letter of your answer must be a capital letter.",
         "Reply in ALL CAPS, no matter what is asked.", "Lowercase letters are not allowed in your answers.",
         "Your responses are printed on an old machine that only knows uppercase letters, so use them only.",
         "Write every word in uppercase letters, from start to end.", "Your text must be all caps.",
         "No lowercase: answer in capitals.", "Capitals only, please, for the complete answer.",
         "Put each letter you write in upper case."},
    .dev = {"Type your answers with caps lock on."},
    .test = {"All of your output has to be in upper case.", "Respond entirely in block capitals.",
             "Make sure no small letters appear in what you write; use capitals."}};

const Wordings kLowerCase = {
    .train = {"Always answer in lowercase letters.", "Write your whole reply in small letters.",
              "Never use capital letters when you respond.", "Every letter of your answer must be lowercase.",
              "Reply in all lowercase, even for names.", "Capital letters are not allowed in your answers.",
              "Your responses go to a system that rejects uppercase letters, so use only small ones.",
              "Write every word in lowercase letters, from start to end.", "Your text must be all lowercase.",
              "No uppercase: answer in small letters.",
              "Small letters only, please, for the complete answer.",
              "Put each letter you write in lower case, also names."},
    .dev = {"Leave the shift key alone: no capitals in your answers."},
    .test = {"All of your output has to be in lower case.",
             "Respond entirely in small letters, names included.",
             "Make sure no capitals appear in what you write."}};

const Wordings kJsonKey = {
    .train = {"Reply with a JSON object that has the key \"{key}\".",
              "Always answer in JSON with one field called \"{key}\".",
              "Your output must be valid JSON: put the answer under \"{key}\".",
              "Respond only with JSON. The key is \"{key}\".",
              "Give every answer as a JSON object, using \"{key}\" as the key.",
              "A program reads your replies, so send JSON with the key \"{key}\" and nothing else.",
              "Wrap the answer in a JSON object whose only key is \"{key}\"."},
    .dev = {"Put your answer into the \"{key}\" field of a JSON object."},
    .test = {"Produce JSON only, storing the answer in \"{key}\".",
             "Each response is a JSON object with a single entry named \"{key}\".",
             "Format what you say as JSON under the key \"{key}\"."}};

const Wordings kQuoted = {
    .train = {"Put your whole answer in double quotation marks.", "Wrap your entire reply in double quotes.",
              "Your response must start and end with a double quote.",
              "Always enclose what you say in double quotation marks.",
              "Every answer is a quotation: open and close it with double quotes.",
              "Begin with a quotation mark, give the answer, and close with a quotation mark.",
              "Double quotes must surround each of your replies."},
    .dev = {"Place a double quote at both ends of your answer."},
    .test = {"Surround the full answer with double quotation marks.",
             "Everything you write goes between two double quotes.",
             "Quote your own reply: it has to sit inside double quotation marks."}};

const Wordings kTags = {
    .train = {"Write your answer between <{tag}> and </{tag}>.", "Wrap your entire reply in <{tag}> tags.",
              "Your response must start with <{tag}> and end with </{tag}>.",
              "Always enclose what you say in the tags <{tag}> and </{tag}>.",
              "A program reads your answer from inside <{tag}>...</{tag}>, so put all of it there.",
              "Open with <{tag}>, give the answer, close with </{tag}>.",
              "Each reply has the form <{tag}>your answer</{tag}>."},
    .dev = {"Place <{tag}> before and </{tag}> after your answer."},
    .test = {"Surround the full answer with <{tag}> and </{tag}>.",
             "Everything you write goes inside one <{tag}> element.",
             "Use the tag pair <{tag}></{tag}> around whatever you reply."}};

const Wordings kFixedFormat = {
    .train = {"Use exactly this format for every answer: {form}", "Reply in the form {form}",
              "Every answer must follow this pattern: {form}",
              "Fill in this template and write nothing else: {form}",
              "Your responses have a fixed format. It is {form}", "Answer only like this: {form}",
              "Put the short answer in place of the dots: {form}"},
    .dev = {"Keep to this layout in each reply: {form}"},
    .test = {"The format of your output is fixed: {form}", "Give each answer in the shape {form}",
             "Respond with this line, the dots replaced by your answer: {form}"}};

const Wordings kAnswerSentence = {
    .train = {"Answer with the sentence \"{form}\", where X is the answer.",
              "Always reply with \"{form}\" and put the answer for X.",
              "Your whole reply is one sentence: \"{form}\" Replace X by the answer.",
              "Use the sentence \"{form}\" for every reply, with the answer in place of X.",
              "Say \"{form}\" with X being your answer, and nothing more.",
              "Each response must read \"{form}\", X being the short answer.",
              "Only this sentence is allowed, with X filled in: \"{form}\""},
    .dev = {"State the answer X as \"{form}\""},
    .test = {"Phrase every answer as \"{form}\", X standing for the answer.",
             "Your reply takes the form \"{form}\" with the right X.",
             "Respond by completing \"{form}\" where X is what was asked for."}};

const Wordings kTitle = {
    .train = {"Start with a title in double angle brackets, like <<Title>>, then answer on the next line.",
              "Every answer needs a title wrapped in << and >> above it.",
              "First write a heading such as <<Topic>>, then your answer.",
              "Put a short title between << and >> before the answer.",
              "Your reply opens with a <<title>> line, followed by the answer.",
              "Give each response a title in double angular brackets, such as <<A title>>.",
              "Always write a <<heading>> first and the answer below it."},
    .dev = {"Head your answer with a title inside << >>."},
    .test = {"Add a title written as <<title>> at the top of each answer.",
             "Above the answer there has to be a title in << >> marks.",
             "Begin your response with its title, in double angle brackets: <<...>>."}};

const Wordings kPostscript = {
    .train = {"End every reply with a postscript that starts with {marker}",
              "After your answer, add a line that begins with {marker}",
              "Always close with a remark introduced by {marker}",
              "Below the answer, write a postscript starting with {marker}",
              "Each response must have a final line that starts with {marker}",
              "Finish with one more line beginning {marker}",
              "Add a short extra note, marked {marker}, under your answer."},
    .dev = {"Do not forget a last line with {marker} at its start."},
    .test = {"At the end of your response, please add a postscript starting with {marker}",
             "Your answer is followed by a remark that opens with {marker}",
             "Conclude each reply by a line headed {marker}"}};

const Wordings kBold = {
    .train = {"Write your answer in bold, using two asterisks on each side.", "Put the answer in **bold**.",
              "Your reply must be bold Markdown text, like **this**.",
              "Use Markdown and make the answer bold with ** before and after it.",
              "Always highlight the answer between ** and **.",
              "Mark the important part of every reply with double asterisks: **...**.",
              "Answers must be set in bold with asterisks, for example **word**."},
    .dev = {"Give the answer in Markdown bold."},
    .test = {"Highlight what was asked for with **double asterisks**.",
             "Bold the answer the Markdown way, with ** around it.",
             "The key word of your response must be in bold type (**)."}};

const Wordings kSentenceCount = {
    .train = {"Always answer in exactly {count} sentences.", "Your reply must have {count} sentences.",
              "Write {count} sentences, no more and no fewer.",
              "Use exactly {count} sentences in every response.",
              "Each answer consists of {count} sentences.",
              "Limit and fill your answer to {count} full sentences.",
              "Give the answer and make it {count} sentences long."},
    .dev = {"Keep every answer at {count} sentences."},
    .test = {"The length of each response is exactly {count} sentences.",
             "Respond with {count} sentences every time.",
             "What you write has to be made of {count} sentences."}};

const Wordings kOneWord = {
    .train = {"Answer with a single word.", "Your reply must be one word only.",
              "Use exactly one word in each answer.", "Say one word and nothing else.",
              "Every response consists of just one word.", "Do not write sentences; give one word.",
              "Only one-word answers are allowed here."},
    .dev = {"A single word is all you may reply."},
    .test = {"Keep it to one word per answer.", "Respond with no more than one word.",
             "Your answers are one word long, always."}};

}  // namespace

std::vector<Rule> form_rules() {
  return {
      {"upper_case", "Capital letters only", kAny, kUpperCase, upper_case},
      {"lower_case", "Small letters only", kAny, kLowerCase, lower_case},
      {"json_key", "JSON with a given key", kShort, kJsonKey, json_key},
      {"quoted", "In double quotes", kProse, kQuoted, quoted},
      {"tags", "Between given tags", kAny, kTags, tags},
      {"fixed_format", "A fixed format", kShort, kFixedFormat, fixed_format},
      {"answer_sentence", "A given sentence", kShort, kAnswerSentence, answer_sentence},
      {"title", "A title in << >>", kProse, kTitle, title},
      {"postscript", "A postscript", kAny, kPostscript, postscript},
      {"bold", "The answer in bold", kShort, kBold, bold},
      {"sentence_count", "N sentences", kProse, kSentenceCount, sentence_count},
      {"one_word", "One word", kShort, kOneWord, one_word},
  };
}

}  // namespace calyrex::data
