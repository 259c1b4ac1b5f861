#include "calyrex/text/chat_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/text/render_view.h"
#include "tests/text/text_support.h"

namespace calyrex::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string golden_template(const std::string& name) {
  return read_file(golden_folder() / "templates" / (name + ".jinja"), 1 << 20);
}

ChatEncoder make_encoder(const std::string& family, const std::string& chat_template,
                         ChatOptions options = {}) {
  const weights::TokenizerSource source = hf_source(family);
  options.chat_template = chat_template;
  options.date = "2026-11-29";
  return ChatEncoder(source, Tokenizer::create(source), options);
}

Message said(const std::string& role, const std::string& content) {
  return {.role = role, .content = content};
}

/// The text that the tokens of each span stand for.
std::vector<std::string> texts(const EncodedChat& chat, const TokenSpans& spans) {
  std::vector<std::string> result;
  for (const TokenSpan& span : spans) {
    const auto begin = static_cast<size_t>(chat.token_byte_begin[span.begin]);
    result.push_back(chat.text.substr(begin, static_cast<size_t>(chat.token_byte_end[span.end - 1]) - begin));
  }
  return result;
}

std::vector<std::string> system_texts(const EncodedChat& chat) { return texts(chat, chat.system_spans); }
std::vector<std::string> label_texts(const EncodedChat& chat) { return texts(chat, chat.assistant_spans); }

const Messages kTurns = {said("system", "Answer in capitals."), said("user", "2+3?"),
                         said("assistant", "FIVE."), said("user", "4+4?"), said("assistant", "EIGHT.")};

TEST(ChatEncoder, SpanIsTheSystemContentAndLabelsAreAnswersWithTheirEnd) {
  const EncodedChat chat =
      make_encoder("qwen2", resolve_chat_template("chatml")).encode(kTurns, GenerationPrompt::kNone);
  EXPECT_THAT(system_texts(chat), ElementsAre("Answer in capitals."));
  EXPECT_THAT(label_texts(chat), ElementsAre("FIVE.<|im_end|>", "EIGHT.<|im_end|>"));
  EXPECT_TRUE(chat.append_only);
}

TEST(ChatEncoder, ThePlaceboSpanIsTheUsersText) {
  ChatOptions options{.chat_template = resolve_chat_template("chatml")};
  options.span.role = weights::SpanRole::kUser;
  const auto source = hf_source("qwen2");
  const auto tokenizer = Tokenizer::create(source);
  const EncodedChat chat = ChatEncoder(source, tokenizer, options).encode(kTurns, GenerationPrompt::kNone);
  EXPECT_THAT(system_texts(chat), ElementsAre("2+3?", "4+4?"));
  EXPECT_THAT(label_texts(chat), ElementsAre("FIVE.<|im_end|>", "EIGHT.<|im_end|>"));
  options.span.part = weights::SpanPart::kMessage;
  EXPECT_THAT(system_texts(ChatEncoder(source, tokenizer, options).encode(kTurns, GenerationPrompt::kNone)),
              ElementsAre("<|im_start|>user\n2+3?<|im_end|>", "<|im_start|>user\n4+4?<|im_end|>"));
}

TEST(ChatEncoder, AChatToBeContinuedHasNoLabels) {
  const ChatEncoder encoder = make_encoder("qwen2", resolve_chat_template("chatml"));
  const EncodedChat chat = encoder.encode({said("system", "s"), said("user", "u")}, GenerationPrompt::kAdd);
  EXPECT_THAT(chat.text, ::testing::EndsWith("<|im_start|>assistant\n"));
  EXPECT_THAT(chat.assistant_spans, IsEmpty());
  EXPECT_THAT(system_texts(chat), ElementsAre("s"));
}

TEST(ChatEncoder, AnAnswersBeginningFollowsTheGenerationPrompt) {
  const ChatEncoder encoder = make_encoder("qwen2", resolve_chat_template("chatml"));
  const Messages messages = {said("system", "s"), said("user", "u")};
  const EncodedChat open = encoder.encode(messages, GenerationPrompt::kAdd);
  const EncodedChat chat = encoder.encode_answered(messages, " B<|im_end|>");
  EXPECT_EQ(chat.text, open.text + " B<|im_end|>");
  EXPECT_THAT(label_texts(chat), ElementsAre(" B<|im_end|>"));
  EXPECT_THAT(system_texts(chat), ElementsAre("s"));
  // What is typed stays plain, as in any message.
  EXPECT_GT(chat.token_ids.size(), open.token_ids.size() + 2);
  EXPECT_EQ(std::vector<TokenId>(chat.token_ids.begin(),
                                 chat.token_ids.begin() + static_cast<ptrdiff_t>(open.token_ids.size())),
            open.token_ids);
  EXPECT_EQ(chat.assistant_spans[0].begin, static_cast<int64_t>(open.token_ids.size()));
}

TEST(ChatEncoder, NoOrEmptySystemMessageIsNoSpan) {
  const ChatEncoder encoder = make_encoder("qwen2", resolve_chat_template("chatml"));
  EXPECT_THAT(encoder.encode({said("user", "u")}, GenerationPrompt::kAdd).system_spans, IsEmpty());
  EXPECT_THAT(encoder.encode({said("system", ""), said("user", "u")}, GenerationPrompt::kAdd).system_spans,
              IsEmpty());
}

TEST(ChatEncoder, EverySystemMessageFormsASpan) {
  const ChatEncoder encoder = make_encoder("qwen2", resolve_chat_template("chatml"));
  const EncodedChat chat =
      encoder.encode({said("system", "one"), said("user", "u"), said("developer", "two"), said("user", "v")},
                     GenerationPrompt::kAdd);
  EXPECT_THAT(system_texts(chat), ElementsAre("one", "two"));
}

TEST(ChatEncoder, FindsTrimmedAndMovedContents) {
  const Messages messages = {said("system", "  rules \n"), said("user", " u "), said("assistant", " a ")};
  EXPECT_THAT(
      system_texts(
          make_encoder("llama-bpe", golden_template("dated")).encode(messages, GenerationPrompt::kNone)),
      ElementsAre("rules"));
  const EncodedChat moved = make_encoder("mistral", golden_template("instruct"))
                                .encode({said("system", "rules"), said("user", "u")}, GenerationPrompt::kAdd);
  EXPECT_EQ(moved.text, "<s>[INST] rules\n\nu[/INST]");
  ASSERT_EQ(moved.system_spans.size(), 1u);
  EXPECT_THAT(system_texts(moved)[0], HasSubstr("rules"));
}

TEST(ChatEncoder, MessagePartTakesHeaderAndEndIn) {
  ChatOptions options;
  options.span.part = weights::SpanPart::kMessage;
  const EncodedChat chat =
      make_encoder("qwen2", resolve_chat_template("chatml"), options).encode(kTurns, GenerationPrompt::kNone);
  EXPECT_THAT(system_texts(chat), ElementsAre("<|im_start|>system\nAnswer in capitals.<|im_end|>"));
  const EncodedChat dated =
      make_encoder("llama-bpe", golden_template("dated"), options).encode(kTurns, GenerationPrompt::kNone);
  EXPECT_THAT(
      system_texts(dated),
      ElementsAre("<|start_header_id|>system<|end_header_id|>\n\nKnowledge ends: 2023\nToday is: 29 Nov "
                  "2026\n\nAnswer in capitals.<|eot_id|>"));
}

TEST(ChatEncoder, ADefaultSystemTextCanBeTheAnchor) {
  const Messages messages = {said("user", "u"), said("assistant", "a")};
  const std::string source = golden_template("default_system");
  EXPECT_THAT(make_encoder("smollm", source).encode(messages, GenerationPrompt::kNone).system_spans,
              IsEmpty());
  ChatOptions options;
  options.span.default_text = weights::DefaultText::kAnchor;
  EXPECT_THAT(system_texts(make_encoder("smollm", source, options).encode(messages, GenerationPrompt::kNone)),
              ElementsAre("You are a helpful AI assistant made for tests."));
  EXPECT_THAT(make_encoder("smollm", resolve_chat_template("chatml"), options)
                  .encode(messages, GenerationPrompt::kNone)
                  .system_spans,
              IsEmpty());
  EXPECT_THAT(system_texts(make_encoder("smollm", source, options).encode_answered({said("user", "u")}, "a")),
              ElementsAre("You are a helpful AI assistant made for tests."));
  options.span.part = weights::SpanPart::kMessage;
  EXPECT_THAT(system_texts(make_encoder("smollm", source, options).encode(messages, GenerationPrompt::kNone)),
              ElementsAre("<|im_start|>system\nYou are a helpful AI assistant made for tests.<|im_end|>"));
}

TEST(ChatEncoder, OnlyTheLastAnswerIsTrainedWhenEarlierTurnsChange) {
  const Messages messages = {said("user", "1+1?"), said("assistant", "<think>\nOne.\n</think>\n\nTwo."),
                             said("user", "2+2?"), said("assistant", "<think>\nTwo.\n</think>\n\nFour.")};
  const EncodedChat chat =
      make_encoder("qwen2", golden_template("reasoning")).encode(messages, GenerationPrompt::kNone);
  EXPECT_FALSE(chat.append_only);
  EXPECT_THAT(label_texts(chat), ElementsAre("<think>\nTwo.\n</think>\n\nFour.<|im_end|>"));
  const EncodedChat eos =
      make_encoder("llama-bpe", golden_template("eos_at_end")).encode(kTurns, GenerationPrompt::kNone);
  EXPECT_FALSE(eos.append_only);
  ASSERT_EQ(eos.assistant_spans.size(), 1u);
  EXPECT_THAT(label_texts(eos)[0], ::testing::AllOf(HasSubstr("EIGHT."), ::testing::EndsWith("<|eot_id|>")));
}

TEST(ChatEncoder, LabelsStartAfterTheGenerationPrompt) {
  ChatOptions options;
  options.kwargs = {{"enable_thinking", false}};
  const EncodedChat chat = make_encoder("qwen2", golden_template("reasoning"), options)
                               .encode({said("user", "u"), said("assistant", "a")}, GenerationPrompt::kNone);
  EXPECT_THAT(label_texts(chat), ElementsAre("a<|im_end|>"));
}

TEST(ChatEncoder, ToolCallsAreLabelsAndTheirTagsTokens) {
  Message call = said("assistant", "");
  call.has_content = false;
  call.extra =
      Json::parse(R"({"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"x": 1}}}]})");
  const ChatEncoder encoder = make_encoder("qwen2", golden_template("tools_in_system"));
  const EncodedChat chat = encoder.encode({said("user", "u"), call}, GenerationPrompt::kNone);
  ASSERT_EQ(chat.assistant_spans.size(), 1u);
  EXPECT_THAT(label_texts(chat)[0],
              ::testing::AllOf(HasSubstr("<tool_call>"), ::testing::EndsWith("<|im_end|>")));
  EXPECT_THAT(chat.token_ids, ::testing::Contains(encoder.tokenizer().token_to_id("<tool_call>").value()));
}

TEST(ChatEncoder, FindsContentsThatTheTemplateChangesOrRepeats) {
  const EncodedChat upper =
      make_encoder("qwen2", "{% for m in messages %}[{{ m.content | upper }}]{% endfor %}")
          .encode({said("system", "rules"), said("user", "rules")}, GenerationPrompt::kNone);
  EXPECT_EQ(upper.text, "[RULES][RULES]");
  ASSERT_EQ(upper.pieces.size(), 5u);
  EXPECT_EQ(upper.pieces[1].origin, EncodedChat::Piece::Origin::kSystem);
  EXPECT_EQ(upper.pieces[1].byte_begin, 1);
  EXPECT_EQ(upper.pieces[3].origin, EncodedChat::Piece::Origin::kUser);
  const EncodedChat twice = make_encoder("qwen2", "{{ messages[0].content }}|{{ messages[0].content }}!")
                                .encode({said("system", "rules")}, GenerationPrompt::kNone);
  EXPECT_EQ(twice.pieces.size(), 4u);
  const EncodedChat tested =
      make_encoder("qwen2",
                   "{% for m in messages %}{{ 'X:' if m.content.startswith('z') else 'Y:' }}{{ m.content }};"
                   "{% endfor %}")
          .encode({said("system", "zebra"), said("user", "apple")}, GenerationPrompt::kNone);
  EXPECT_EQ(tested.text, "X:zebra;Y:apple;");
  EXPECT_EQ(system_texts(tested).size(), 1u);
}

template <typename Function>
std::string error_of(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(ChatEncoder, AContentThatCannotBePlacedIsAnErrorThatNamesIt) {
  const ChatEncoder encoder = make_encoder("qwen2",
                                           "zz {% for m in messages %}{{ 'X:' if m.content.startswith('z') "
                                           "else 'Y:' }}{{ m.content }};{% endfor %}");
  EXPECT_THAT(error_of([&] {
                encoder.encode({said("system", "z"), said("user", "u")}, GenerationPrompt::kNone);
              }),
              ::testing::AllOf(HasSubstr("chat template of qwen2"),
                               HasSubstr("the content of messages[0] (system)")));
}

TEST(ChatEncoder, RefusalsAndMissingTemplatesAreClear) {
  const ChatEncoder encoder = make_encoder("smollm", golden_template("no_system"));
  EXPECT_EQ(error_of([&] { encoder.encode(kTurns, GenerationPrompt::kNone); }),
            "chat template of smollm refuses these messages: System role not supported");
  EXPECT_THAT(error_of([&] { encoder.encode({}, GenerationPrompt::kNone); }),
              HasSubstr("at least one message"));
  EXPECT_THAT(error_of([&] { encoder.encode({said("user", "\xff")}, GenerationPrompt::kNone); }),
              HasSubstr("UTF-8"));
  const weights::TokenizerSource source = hf_source("smollm");
  EXPECT_THAT(error_of([&] { ChatEncoder(source, Tokenizer::create(source), {}); }),
              ::testing::AllOf(HasSubstr("smollm"), HasSubstr("--chat-template")));
}

TEST(ChatEncoder, DatesAreDaysOfTheCalendar) {
  for (const char* date : {"2026-11-29", "2024-02-29", "2026-1-1", "0001-01-01", "2026-11-29T17:05:09"})
    EXPECT_TRUE(is_date(date)) << date;
  for (const char* date : {"", "x", "2026-02-29", "2026-13-01", "0000-01-01", "-001-01-01", "2026-11-29x",
                           "2026-11-29T00:00", "2026-11-29T24:00:00", "99999-01-01", "2026-11", " "}) {
    EXPECT_FALSE(is_date(date)) << date;
  }
  const weights::TokenizerSource source = hf_source("smollm");
  ChatOptions options;
  options.chat_template = golden_template("no_system");
  options.date = "2026-02-29";
  EXPECT_THAT(error_of([&] { ChatEncoder(source, Tokenizer::create(source), options); }),
              HasSubstr("'2026-02-29' is no date"));
}

TEST(ChatEncoder, AReplacingTemplateAddsItsEndOfTurnToTheStopTokens) {
  weights::TokenizerSource source = hf_source("qwen2");
  const auto tokenizer = Tokenizer::create(source);
  source.stop_ids = {tokenizer->token_to_id("<|endoftext|>").value()};
  ChatOptions options;
  options.chat_template = resolve_chat_template("chatml");
  EXPECT_THAT(ChatEncoder(source, tokenizer, options).stop_ids(),
              ElementsAre(source.stop_ids[0], tokenizer->token_to_id("<|im_end|>").value()));
  source.chat_template = options.chat_template;
  EXPECT_THAT(ChatEncoder(source, tokenizer, {}).stop_ids(), ElementsAre(source.stop_ids[0]));
}

TEST(ChatEncoder, TypedAddedTokensStayPlainWhateverTheyAre) {
  struct Place {
    const char* family;
    std::string source;
  };
  const Place places[] = {{"qwen2", resolve_chat_template("chatml")},
                          {"qwen2", golden_template("reasoning")},
                          {"llama-bpe", golden_template("dated")},
                          {"mistral", golden_template("instruct")}};
  for (const Place& place : places) {
    const ChatEncoder encoder = make_encoder(place.family, place.source);
    std::vector<std::string> parts = {" ", "\n", "a", "<", "|", ">", "<|", "[", "]", "im_end|>", "\u65e5"};
    for (const AddedToken& token : encoder.tokenizer().added_tokens()) {
      parts.push_back(token.content);
      parts.push_back(token.content.substr(0, token.content.size() - 1));
    }
    const auto count_special = [&](const EncodedChat& chat) {
      return std::count_if(chat.token_ids.begin(), chat.token_ids.end(),
                           [&](TokenId id) { return encoder.tokenizer().is_special(id); });
    };
    const auto chat_of = [&](const std::string& system, const std::string& user) {
      return encoder.encode({said("system", system), said("user", user)}, GenerationPrompt::kAdd);
    };
    const int64_t usual = count_special(chat_of("x", "y"));
    rc::check(std::string("no special token is typed: ") + place.family, [&] {
      std::string contents[2];
      for (std::string& content : contents) {
        for (const size_t part :
             *rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(0, parts.size()))) {
          content += parts[part];
        }
      }
      const EncodedChat chat = chat_of("s" + contents[0] + "s", "u" + contents[1] + "u");
      RC_ASSERT(count_special(chat) == usual);
      RC_ASSERT(chat.system_spans.size() == 1u);
      RC_ASSERT(system_texts(chat)[0].find("s" + contents[0] + "s") != std::string::npos);
    });
  }
}

TEST(ChatEncoder, ToolTextsOfTheOperatorStayPlain) {
  const ChatEncoder encoder = make_encoder("qwen2", golden_template("tools_in_system"));
  const Json tools =
      Json::parse(R"([{"type": "function", "function": {"name": "f", "description": "<|im_end|>",
      "parameters": {"<tool_call>": 1}}}])");
  const EncodedChat chat = encoder.encode({said("user", "u")}, GenerationPrompt::kAdd, tools);
  const TokenId end = encoder.tokenizer().token_to_id("<|im_end|>").value();
  EXPECT_EQ(std::count(chat.token_ids.begin(), chat.token_ids.end(), end), 2);
  EXPECT_THAT(chat.text, HasSubstr("\"description\": \"<|im_end|>\""));
}

TEST(ChatEncoder, TheDefaultBackboneGivesTheIdsAndSpansOfTransformers) {
  const std::filesystem::path path = ".deps/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "SmolLM2-135M-Instruct.Q4_1.gguf is absent";
  const auto file = weights::GgufFile::open(path);
  const weights::TokenizerSource source = weights::read_gguf_tokenizer(file, "default", 49152);
  const ChatEncoder encoder(source, Tokenizer::create(source), {});
  const Json expected = read_json_file("tests/golden/score/expected.json")["rows"];
  for_each_json_line("tests/golden/score/chats.jsonl", [&](int64_t line, const Json& row) {
    const std::string id = row["id"];
    if (!row.contains("messages")) return;
    const EncodedChat chat = encoder.encode(parse_messages(row["messages"], id), GenerationPrompt::kNone);
    Json spans = Json::array();
    for (const TokenSpan& span : chat.system_spans) spans.push_back({span.begin, span.end});
    ASSERT_FALSE(chat.assistant_spans.empty()) << id;
    const auto wanted = expected[id]["token_ids"].get<std::vector<TokenId>>();
    const auto end = static_cast<size_t>(chat.assistant_spans.back().end);
    EXPECT_EQ(
        std::vector<TokenId>(chat.token_ids.begin(), chat.token_ids.begin() + static_cast<ptrdiff_t>(end)),
        std::vector<TokenId>(wanted.begin(),
                             wanted.begin() + static_cast<ptrdiff_t>(std::min(end, wanted.size()))))
        << id;
    EXPECT_EQ(spans, expected[id]["system_spans"]) << id;
    EXPECT_EQ(chat.assistant_spans.back().begin, expected[id]["score_from"].get<int64_t>()) << id;
  });
}

TEST(RenderView, ShowsTokensSpansAndLabels) {
  const ChatEncoder encoder = make_encoder("qwen2", resolve_chat_template("chatml"));
  const EncodedChat chat = encoder.encode(kTurns, GenerationPrompt::kNone);
  const std::string text = render_view_text(chat, encoder.tokenizer(), Colour::kPlain);
  EXPECT_THAT(
      text, ::testing::AllOf(HasSubstr("S. system"), HasSubstr(".L assistant"), HasSubstr("tokens; system")));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(render_view_text(chat, encoder.tokenizer(), Colour::kAnsi).find('\x1b'), std::string::npos);
  const Json json = render_view_json(chat, encoder.tokenizer());
  EXPECT_EQ(json["token_ids"].size(), json["tokens"].size());
  EXPECT_EQ(json["system_spans"].size(), 1u);
  EXPECT_EQ(json["assistant_spans"].size(), 2u);
  std::string joined;
  for (const Json& piece : json["pieces"]) joined += piece["text"].get<std::string>();
  EXPECT_EQ(joined, chat.text);
}

}  // namespace
}  // namespace calyrex::text
