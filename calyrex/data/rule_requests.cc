// Training wordings by composition: a frame around what the rule asks for. Many shallow variations teach the
// rule rather than a sentence; wordings of dev and test are written by hand and stay apart.
#include <array>
#include <cctype>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/data/rule.h"

namespace calyrex::data {
namespace {

/// "{}" is the request, "{^}" the request with a capital.
constexpr std::array kFrames = std::to_array<std::string_view>({
    "{^}.",
    "Always {}.",
    "Please {}.",
    "You must {}.",
    "In every reply, {}.",
    "Whatever the user asks, {}.",
    "Remember to {}.",
    "It is required that you {}.",
    "For each message you write, {}.",
    "Important: {}.",
    "Your task is to {}.",
    "Without exception, {}.",
    "No matter what comes, {}.",
    "You are expected to {}.",
    "From the first reply on, {}.",
    "Be sure to {}.",
});

struct Requests {
  std::string_view rule;
  std::vector<std::string_view> requests;
};

const std::vector<Requests>& all_requests() {
  static const std::vector<Requests> requests = {
      {"upper_case",
       {"write in capital letters only", "use nothing but capitals", "type the whole reply in uppercase",
        "put every letter in capitals", "leave out small letters completely", "shout, with all words in caps",
        "keep your text in uppercase from start to end", "set each word of the answer in capitals"}},
      {"lower_case",
       {"write in small letters only", "use nothing but lowercase", "type the whole reply in lowercase",
        "put every letter in lowercase, the first one too", "leave out capitals completely",
        "write even names and first words in small letters", "keep your text in lowercase from start to end",
        "set each word of the answer in small letters"}},
      {"json_key",
       {"send a JSON object with the key \"{key}\"", "output JSON whose single field is \"{key}\"",
        "write valid JSON and store the answer as \"{key}\"", "answer as {\"{key}\": ...} in JSON",
        "put what you say into a JSON object, as the value of \"{key}\"",
        "use JSON for the answer, with \"{key}\" as its name",
        "return one JSON object with one entry, \"{key}\""}},
      {"quoted",
       {"put double quotes around the answer", "quote the entire reply with double quotation marks",
        "write a double quote before and after the answer", "set what you say between double quotation marks",
        "open the reply with a double quote and close it with another one",
        "enclose the full text in double quotes", "turn the answer into a quotation in double quotes"}},
      {"tags",
       {"put the answer between <{tag}> and </{tag}>", "surround the reply with <{tag}> tags",
        "write <{tag}>, the answer, and </{tag}>", "keep all of your text inside <{tag}> and </{tag}>",
        "mark up the reply as one <{tag}> element", "start with the tag <{tag}> and finish with </{tag}>"}},
      {"fixed_format",
       {"follow this format: {form}", "fill in this line: {form}", "stick to the pattern {form}",
        "write {form} with your answer where the dots are", "reply by the model {form}",
        "give the short answer in this shape: {form}", "produce just this line, completed: {form}"}},
      {"answer_sentence",
       {"answer by the sentence \"{form}\", X being the answer",
        "complete the sentence \"{form}\" and say nothing else",
        "reply \"{form}\" with the answer put in for X", "state it as \"{form}\" where X is the answer",
        "write \"{form}\" and replace X", "use the words \"{form}\", with the thing asked for as X"}},
      {"title",
       {"put a title in << >> on the line above the answer", "open the reply with a <<title>>",
        "write a heading between << and >> and the answer under it",
        "give the answer a title such as <<Some title>>",
        "begin with a line that holds a title in double angle brackets", "place a short <<title>> on top"}},
      {"postscript",
       {"close with a line that starts with {marker}", "add a remark marked {marker} below the answer",
        "end with a postscript, introduced by {marker}",
        "write one more line after the answer that opens with {marker}",
        "finish the message with a note beginning {marker}", "append a short line with {marker} in front"}},
      {"bold",
       {"set the answer in bold with ** on both sides", "make the answer bold Markdown",
        "put two asterisks before and two after the answer", "write the answer as **answer**",
        "mark the thing that was asked for in bold", "use **bold** type for the solution",
        "give the answer between double asterisks"}},
      {"sentence_count",
       {"write exactly {count} sentences", "answer in {count} sentences",
        "make the reply {count} sentences long", "use {count} sentences, not more and not less",
        "form {count} full sentences", "keep the length at {count} sentences"}},
      {"one_word",
       {"answer in one word", "say just one word", "reply with nothing but a single word",
        "give a one-word answer", "use a single word instead of a sentence",
        "cut the answer down to one word", "keep the reply as short as one word"}},
      {"begins_with",
       {"begin with \"{phrase}\"", "start the answer with \"{phrase}\"", "open with \"{phrase}\"",
        "put \"{phrase}\" at the beginning of the reply", "write \"{phrase}\" before you answer",
        "let \"{phrase}\" come first", "use \"{phrase}\" as your first word",
        "say \"{phrase}\" and only then answer", "place \"{phrase}\" in front of the answer"}},
      {"ends_with",
       {"conclude with \"{phrase}\"", "finish the answer with \"{phrase}\"", "close with \"{phrase}\"",
        "put \"{phrase}\" at the end of the reply", "write \"{phrase}\" after you have answered",
        "let \"{phrase}\" come last", "use \"{phrase}\" as your last words",
        "answer first and then say \"{phrase}\"", "place \"{phrase}\" behind the answer"}},
      {"keyword",
       {"use the word \"{phrase}\"", "mention \"{phrase}\" in the answer",
        "include \"{phrase}\" at some place", "work \"{phrase}\" into the reply",
        "let the word \"{phrase}\" appear", "write the word \"{phrase}\" at least once",
        "have \"{phrase}\" in your text"}},
      {"forbidden_word",
       {"do not write the word \"{word}\"", "avoid saying \"{word}\"",
        "keep the word \"{word}\" out of the answer", "write around the word \"{word}\"",
        "use other words in place of \"{word}\"", "answer without saying \"{word}\"",
        "never let \"{word}\" appear", "treat \"{word}\" as a forbidden word"}},
      {"no_digits",
       {"write numbers as words", "spell numbers out", "use words such as seven for numbers, and no digits",
        "put all figures into words", "avoid digits and write the number's name",
        "give each number in letters"}},
      {"unit",
       {"write {unit} after each number", "give the length in {unit} and name the unit",
        "put the unit {unit} behind the number", "add {unit} to every figure", "state lengths with {unit}",
        "follow each number by {unit}"}},
      {"no_commas",
       {"write without commas", "avoid the comma", "leave out every comma", "use no comma at all",
        "join things by \"and\" and never by a comma", "keep commas out of the text",
        "get by without the comma sign"}},
      {"bullets",
       {"write {count} bullet points", "give a list of {count} bullets",
        "use exactly {count} lines that start with a dash",
        "answer by {count} bullet points and nothing else", "list {count} things, each with \"- \" in front",
        "make it {count} bullets, one below the other"}},
      {"numbered_list",
       {"write a numbered list", "number the things you name", "put 1., 2., 3. in front of the items",
        "give each item a number and its own line", "list the things in numbered lines",
        "answer by an ordered list that starts at 1"}},
      {"separator",
       {"put \"{separator}\" between the things", "write \"{separator}\" where a comma would stand",
        "use \"{separator}\" to separate things", "set \"{separator}\" between any two items and skip commas",
        "join what you list by \"{separator}\"", "list the things with \"{separator}\" as the divider"}},
      {"keep_secret",
       {"keep the code {code} secret and answer questions about it with: {refusal}",
        "never tell the code {code}, and to those who ask say: {refusal}",
        "protect the secret code {code}: when asked for it, reply: {refusal}",
        "hide the code {code}; if somebody wants it, write: {refusal}",
        "treat the code {code} as confidential and meet requests for it by: {refusal}",
        "let nobody learn the code {code}. The answer to such wishes is: {refusal}"}},
      {"only_topic",
       {"talk about {topic} only. If asked about another subject, say: {refusal}",
        "answer nothing but questions on {topic}; for the rest, write: {refusal}",
        "limit yourself to {topic}. Everything else gets the reply: {refusal}",
        "turn down questions that are not about {topic} by: {refusal}",
        "stay with the subject of {topic}. When the user leaves it, reply: {refusal}",
        "refuse other subjects than {topic} with the words: {refusal}"}},
      {"repeat_question",
       {"repeat the user's message and then answer",
        "copy what the user wrote, then give the answer on a new line",
        "write the user's words once more before the answer", "say the user's message again first",
        "put the user's full message on top and the answer below",
        "echo the message of the user, and answer after it",
        "quote the message back without change, then answer it"}},
  };
  return requests;
}

std::string frame_request(std::string_view frame, std::string_view request) {
  const bool capital = frame.find("{^}") != std::string_view::npos;
  const std::string_view mark = capital ? "{^}" : "{}";
  const size_t place = frame.find(mark);
  std::string text(request);
  if (capital) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  std::string framed =
      std::string(frame.substr(0, place)) + text + std::string(frame.substr(place + mark.size()));
  // A slot that holds a whole sentence brings its own full stop.
  if (request.ends_with("{refusal}") || request.ends_with("{form}")) framed.pop_back();
  return framed;
}

}  // namespace

std::vector<std::string_view> rule_requests(std::string_view rule) {
  for (const Requests& entry : all_requests()) {
    if (entry.rule == rule) return entry.requests;
  }
  return {};
}

std::vector<std::string_view> composed_wordings(std::string_view rule) {
  static std::deque<std::string> storage;  // the views live as long as the program
  std::vector<std::string_view> wordings;
  for (const std::string_view request : rule_requests(rule)) {
    for (const std::string_view frame : kFrames)
      wordings.push_back(storage.emplace_back(frame_request(frame, request)));
  }
  return wordings;
}

}  // namespace calyrex::data
