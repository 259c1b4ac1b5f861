#include "calyrex/text/chat_encoder.h"

#include <algorithm>
#include <ctime>
#include <optional>

#include "calyrex/base/error.h"
#include "calyrex/text/chat_template.h"
#include "calyrex/text/content_places.h"
#include "calyrex/text/label_spans.h"
#include "calyrex/text/markers.h"
#include "calyrex/text/utf8.h"

namespace calyrex::text {
namespace {

using Piece = EncodedChat::Piece;
using weights::DefaultText;
using weights::SpanPart;

/// Messages as transformers hands them to templates: fields that are null are left out, and the names under
/// which reasoning is passed are made equal.
Json template_messages(const Messages& messages) {
  Json list = Json::array();
  for (const Message& message : messages) {
    Json item = {{"role", message.role}};
    if (message.has_content) item["content"] = message.content;
    for (const auto& [key, value] : message.extra.items()) {
      if (!value.is_null()) item[key] = value;
    }
    for (const auto* name : {"reasoning_content", "thinking", "reasoning"}) {
      if (!item.contains(name)) continue;
      const Json reasoning = item[name];
      item["reasoning_content"] = reasoning;
      if (!item.contains("thinking")) item["thinking"] = reasoning;
      break;
    }
    list.push_back(std::move(item));
  }
  return list;
}

void check_messages(const Messages& messages) {
  if (messages.empty()) fail(ErrorCode::kInvalidArgument, "a chat needs at least one message");
  for (size_t index = 0; index < messages.size(); ++index) {
    if (!is_utf8(messages[index].content)) {
      fail(ErrorCode::kInvalidArgument, "messages[{}]: the content is not UTF-8", index);
    }
  }
}

std::string local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return text;
}

/// The special tokens that templates may name (bos_token, ...), as transformers passes them.
Json special_token_map(const weights::TokenizerSource& source, const Tokenizer& tokenizer) {
  Json map = Json::object();
  if (source.gguf) {
    const auto name = [&](const char* key, std::optional<TokenId> id) {
      if (id) map[key] = tokenizer.id_to_token(*id);
    };
    name("bos_token", source.gguf->bos_id);
    name("eos_token", source.gguf->eos_id);
    name("unk_token", source.gguf->unknown_id);
    name("pad_token", source.gguf->pad_id);
    return map;
  }
  for (const auto& [key, value] : source.tokenizer_config.items()) {
    if (!key.ends_with("_token")) continue;
    if (value.is_string()) map[key] = value;
    if (value.is_object() && value.contains("content") && value["content"].is_string())
      map[key] = value["content"];
  }
  return map;
}

std::string template_source(const weights::TokenizerSource& source, const ChatOptions& options) {
  if (options.chat_template) return *options.chat_template;
  if (source.chat_template) return *source.chat_template;
  fail(ErrorCode::kInvalidArgument,
       "{}: the model has no chat template (a base model?); name one with --chat-template FILE|chatml|llama3",
       source.name);
}

/// The text cut into pieces, each of one origin.
std::vector<Piece> make_pieces(const std::vector<ContentPlace>& places, const std::vector<ForeignText>& texts,
                               int64_t size) {
  std::vector<Piece> pieces;
  int64_t at = 0;
  const auto add = [&](int64_t end, Piece::Origin origin) {
    if (at < end) pieces.push_back({at, end, origin});
    at = std::max(at, end);
  };
  for (const ContentPlace& place : places) {
    add(place.begin, Piece::Origin::kTemplate);
    add(place.end, texts[place.index].origin);
  }
  add(size, Piece::Origin::kTemplate);
  return pieces;
}

std::vector<AddedTokenRange> added_token_ranges(const std::vector<Piece>& pieces) {
  std::vector<AddedTokenRange> ranges;
  for (const Piece& piece : pieces) {
    if (piece.origin == Piece::Origin::kTemplate) {
      ranges.push_back({piece.byte_begin, piece.byte_end, AddedTokens::kAll});
    } else if (piece.origin == Piece::Origin::kAssistant) {
      ranges.push_back({piece.byte_begin, piece.byte_end, AddedTokens::kNonSpecial});
    }
  }
  return ranges;
}

TokenSpans sorted_disjoint(TokenSpans spans) {
  std::erase_if(spans, [](const TokenSpan& span) { return span.begin >= span.end; });
  std::sort(spans.begin(), spans.end(),
            [](const TokenSpan& a, const TokenSpan& b) { return a.begin < b.begin; });
  TokenSpans merged;
  for (const TokenSpan& span : spans) {
    if (!merged.empty() && span.begin < merged.back().end) {
      merged.back().end = std::max(merged.back().end, span.end);
    } else {
      merged.push_back(span);
    }
  }
  return merged;
}

}  // namespace

struct ChatEncoder::Impl {
  Impl(const weights::TokenizerSource& source, std::shared_ptr<const Tokenizer> tokenizer_in,
       ChatOptions options_in)
      : tokenizer(std::move(tokenizer_in)),
        options(std::move(options_in)),
        chat_template(template_source(source, options),
                      options.template_name.empty() ? source.name : options.template_name),
        special_tokens(special_token_map(source, *tokenizer)),
        added(tokenizer->added_tokens()),
        stop_ids(source.stop_ids) {
    if (options.date && !is_date(*options.date)) {
      fail(ErrorCode::kInvalidArgument, "'{}' is no date; one is written as 2026-11-29", *options.date);
    }
  }

  TemplateChat template_chat(const Messages& messages, const Json& tools) const;
  EncodedChat encode(const Messages& messages, GenerationPrompt prompt, const Json& tools) const;
  EncodedChat encode_answered(const Messages& messages, std::string_view answer, const Json& tools) const;
  void add_end_of_turn();

  std::shared_ptr<const Tokenizer> tokenizer;
  ChatOptions options;
  ChatTemplate chat_template;
  Json special_tokens;
  AddedTokenText added;
  std::vector<TokenId> stop_ids;
};

TemplateChat ChatEncoder::Impl::template_chat(const Messages& messages, const Json& tools) const {
  TemplateChat chat;
  chat.messages = template_messages(messages);
  chat.context = special_tokens;
  chat.context["tools"] = tools;
  chat.context["documents"] = nullptr;
  for (const auto& [key, value] : options.kwargs.items()) chat.context[key] = value;
  chat.context["__now"] = options.date.value_or(local_now());
  return chat;
}

namespace {

/// Chats of one request to the template, by index.
enum ChatIndex : size_t { kPlain, kMarked, kWithSystem };

/// Renderings of the messages before a message and of those through it.
struct TurnRenderings {
  size_t message = 0;
  size_t before = 0;
  size_t through = 0;
};

/// One chat on its way from messages to tokens.
class ChatJob {
 public:
  ChatJob(const ChatTemplate& chat_template, const AddedTokenText& added, const ChatOptions& options,
          TemplateChat chat, GenerationPrompt prompt)
      : chat_template_(chat_template),
        added_(added),
        options_(options),
        chat_(std::move(chat)),
        generation_prompt_(prompt == GenerationPrompt::kAdd),
        texts_(foreign_texts(chat_, added_)),
        salt_(choose_salt(chat_, chat_template.source())) {
    plan();
  }

  /// Renders, finds the contents and tokenises, with an answer's beginning behind the rendering; then the
  /// spans may be asked for.
  EncodedChat encode(const Tokenizer& tokenizer, std::string_view answer = {});
  TokenSpans system_spans(const EncodedChat& chat, const Tokenizer& tokenizer) const;
  std::vector<AssistantTurn> assistant_turns(const EncodedChat& chat) const;

 private:
  void plan();
  size_t add_variant(RenderVariant variant) {
    variants_.push_back(variant);
    return variants_.size() - 1;
  }
  std::string_view role(size_t message) const {
    return chat_.messages[message]["role"].get_ref<const std::string&>();
  }
  bool is_system(size_t message) const { return role(message) == "system" || role(message) == "developer"; }
  bool anchors_users() const { return options_.span.role == weights::SpanRole::kUser; }
  /// Whether the message forms a span.
  bool is_anchor(size_t message) const {
    return anchors_users() ? role(message) == "user" : is_system(message);
  }
  TokenSpan message_span(const EncodedChat& chat, int64_t begin, int64_t end,
                         const Tokenizer& tokenizer) const;
  TokenSpan default_text_span(const EncodedChat& chat, const Tokenizer& tokenizer) const;

  const ChatTemplate& chat_template_;
  const AddedTokenText& added_;
  const ChatOptions& options_;
  TemplateChat chat_;
  bool generation_prompt_;
  std::vector<ForeignText> texts_;
  std::string salt_;
  std::vector<RenderVariant> variants_;
  std::vector<Rendering> renderings_;
  std::vector<ContentPlace> places_;
  std::vector<TurnRenderings> assistants_;
  std::vector<TurnRenderings> anchors_;  // messages that form a span as a whole
  bool seeks_default_text_ = false;
  size_t with_system_ = 0;   // the chat behind a marked system message
  size_t system_alone_ = 0;  // that message by itself
};

void ChatJob::plan() {
  const size_t count = chat_.messages.size();
  add_variant({kPlain, count, generation_prompt_});
  add_variant({kMarked, count, generation_prompt_});
  bool has_system = false;
  for (size_t message = 0; message < count; ++message) {
    has_system = has_system || is_system(message);
    if (role(message) == "assistant" && !generation_prompt_) {
      const size_t before = add_variant({kPlain, message, true});
      assistants_.push_back(
          {message, before, message + 1 == count ? 0 : add_variant({kPlain, message + 1, false})});
    }
    if (is_anchor(message) && options_.span.part == SpanPart::kMessage) {
      const size_t before = message == 0 ? 0 : add_variant({kPlain, message, false});
      anchors_.push_back({message, before, add_variant({kPlain, message + 1, false})});
    }
  }
  seeks_default_text_ = !has_system && !anchors_users() && options_.span.default_text == DefaultText::kAnchor;
  if (seeks_default_text_) {
    with_system_ = add_variant({kWithSystem, count + 1, generation_prompt_});
    system_alone_ = add_variant({kWithSystem, 1, false});
  }
}

EncodedChat ChatJob::encode(const Tokenizer& tokenizer, std::string_view answer) {
  std::vector<TemplateChat> chats = {chat_, mark_chat(chat_, added_, Marking::kAround, salt_)};
  if (seeks_default_text_) {
    TemplateChat with_system = chat_;
    const Json system = {{"role", "system"}, {"content", marker_pair(salt_, texts_.size())}};
    with_system.messages.insert(with_system.messages.begin(), system);
    chats.push_back(std::move(with_system));
  }
  renderings_ = chat_template_.render(chats, variants_);
  Rendering& plain = renderings_[0];
  if (!plain.ok) {
    fail(ErrorCode::kInvalidArgument, "{}{}: {}", chat_template_.name(),
         plain.refused ? " refuses these messages" : "", plain.text);
  }
  places_ = find_content_places(
      {chat_template_, chat_, added_, texts_, salt_, plain.text, renderings_[1], generation_prompt_});
  EncodedChat chat;
  chat.text = plain.text;
  const auto rendered = static_cast<int64_t>(chat.text.size());
  chat.pieces = make_pieces(places_, texts_, rendered);
  chat.text += answer;
  const auto end = static_cast<int64_t>(chat.text.size());
  if (end > rendered) chat.pieces.push_back({rendered, end, Piece::Origin::kAssistant});
  Encoding encoding = tokenizer.encode(chat.text, added_token_ranges(chat.pieces));
  chat.token_ids = std::move(encoding.ids);
  chat.token_byte_begin = std::move(encoding.byte_begin);
  chat.token_byte_end = std::move(encoding.byte_end);
  return chat;
}

/// Tokens of a whole message that the template wrote at [begin, end): without BOS, and without the white
/// space after its last special token.
TokenSpan ChatJob::message_span(const EncodedChat& chat, int64_t begin, int64_t end,
                                const Tokenizer& tokenizer) const {
  TokenSpan span = tokens_overlapping(chat, begin, end);
  // Some models' BOS is also how each header begins; then it belongs to the message.
  const auto bos = tokenizer.bos_token();
  const bool starts_with_bos = begin == 0 && span.length() > 1 && bos && chat.text.starts_with(*bos);
  if (starts_with_bos && tokenizer.is_special(chat.token_ids[1])) span.begin = 1;
  for (int64_t token = span.end; token-- > span.begin;) {
    if (tokenizer.is_special(chat.token_ids[token])) {
      span.end = token + 1;
      break;
    }
    const int64_t from = chat.token_byte_begin[token];
    if (!trim_start(std::string_view(chat.text).substr(from, chat.token_byte_end[token] - from)).empty())
      break;
  }
  return span;
}

TokenSpan ChatJob::default_text_span(const EncodedChat& chat, const Tokenizer& tokenizer) const {
  const auto cut = [&](size_t rendering) -> std::optional<std::vector<MarkedPiece>> {
    if (!renderings_[rendering].ok) return std::nullopt;
    auto pieces = cut_at_markers(renderings_[rendering].text, salt_);
    return pieces && pieces->size() == 3 ? pieces : std::nullopt;
  };
  const auto around = cut(with_system_);
  if (!around) return {};
  const std::string_view text = renderings_[0].text;
  const std::string_view before = (*around)[0].text;
  const std::string_view after = (*around)[2].text;
  if (!text.starts_with(before) || !text.ends_with(after) || before.size() + after.size() > text.size())
    return {};
  const size_t end = text.size() - after.size();
  if (options_.span.part == SpanPart::kContent) {
    return tokens_overlapping(chat, static_cast<int64_t>(before.size()), static_cast<int64_t>(end));
  }
  const auto alone = cut(system_alone_);
  if (!alone || (*alone)[0].text != before || !text.substr(end).starts_with((*alone)[2].text)) return {};
  return message_span(chat, 0, static_cast<int64_t>(end + (*alone)[2].text.size()), tokenizer);
}

TokenSpans ChatJob::system_spans(const EncodedChat& chat, const Tokenizer& tokenizer) const {
  TokenSpans spans;
  const Piece::Origin anchor = anchors_users() ? Piece::Origin::kUser : Piece::Origin::kSystem;
  if (seeks_default_text_) spans.push_back(default_text_span(chat, tokenizer));
  for (const ContentPlace& place : places_) {
    const ForeignText& text = texts_[place.index];
    if (!text.is_content || text.origin != anchor) continue;
    spans.push_back(tokens_overlapping(chat, place.begin, place.end));
    const auto turn = std::find_if(anchors_.begin(), anchors_.end(), [&](const TurnRenderings& renderings) {
      return static_cast<int64_t>(renderings.message) == text.message;
    });
    if (turn == anchors_.end()) continue;
    const Rendering& before = renderings_[turn->before];
    const Rendering& through = renderings_[turn->through];
    const bool first = turn->message == 0;
    if (!through.ok || !chat.text.starts_with(through.text)) continue;
    if (!first && (!before.ok || !chat.text.starts_with(before.text))) continue;
    const auto begin = static_cast<int64_t>(first ? 0 : before.text.size());
    spans.push_back(message_span(chat, begin, static_cast<int64_t>(through.text.size()), tokenizer));
  }
  return sorted_disjoint(std::move(spans));
}

std::vector<AssistantTurn> ChatJob::assistant_turns(const EncodedChat& chat) const {
  std::vector<AssistantTurn> turns;
  for (const TurnRenderings& renderings : assistants_) {
    AssistantTurn turn;
    turn.before = renderings_[renderings.before];
    turn.through = renderings_[renderings.through];
    turn.limit = static_cast<int64_t>(chat.text.size());
    for (const ContentPlace& place : places_) {
      const ForeignText& text = texts_[place.index];
      const auto message = static_cast<int64_t>(renderings.message);
      if (text.is_content && text.message == message && turn.content_begin < 0) {
        turn.content_begin = place.begin;
        turn.content_end = place.end;
      }
      if (text.is_content && text.message > message) turn.limit = std::min(turn.limit, place.begin);
    }
    turns.push_back(std::move(turn));
  }
  return turns;
}

}  // namespace

EncodedChat ChatEncoder::Impl::encode(const Messages& messages, GenerationPrompt prompt,
                                      const Json& tools) const {
  check_messages(messages);
  ChatJob job(chat_template, added, options, template_chat(messages, tools), prompt);
  EncodedChat chat = job.encode(*tokenizer);
  chat.system_spans = job.system_spans(chat, *tokenizer);
  find_label_spans(job.assistant_turns(chat), *tokenizer, stop_ids, chat);
  return chat;
}

EncodedChat ChatEncoder::Impl::encode_answered(const Messages& messages, std::string_view answer,
                                               const Json& tools) const {
  check_messages(messages);
  ChatJob job(chat_template, added, options, template_chat(messages, tools), GenerationPrompt::kAdd);
  EncodedChat chat = job.encode(*tokenizer, answer);
  chat.system_spans = job.system_spans(chat, *tokenizer);
  const auto end = static_cast<int64_t>(chat.text.size());
  chat.assistant_spans = {tokens_overlapping(chat, end - static_cast<int64_t>(answer.size()), end)};
  return chat;
}

/// A template that replaces the model's own may end turns with a token that the model's files do not name.
void ChatEncoder::Impl::add_end_of_turn() {
  EncodedChat probe;
  try {
    const Messages messages = {{.role = "user", .content = "a"}, {.role = "assistant", .content = "b"}};
    probe = encode(messages, GenerationPrompt::kNone, nullptr);
  } catch (const Error&) {
    return;  // a template with demands of its own; what the model's files say stands
  }
  if (probe.assistant_spans.empty()) return;
  const TokenId last = probe.token_ids[probe.assistant_spans.back().end - 1];
  if (tokenizer->is_special(last) && std::find(stop_ids.begin(), stop_ids.end(), last) == stop_ids.end()) {
    stop_ids.push_back(last);
  }
}

ChatEncoder::ChatEncoder(const weights::TokenizerSource& source, std::shared_ptr<const Tokenizer> tokenizer,
                         ChatOptions options)
    : tokenizer_(tokenizer), impl_(std::make_unique<Impl>(source, std::move(tokenizer), std::move(options))) {
  if (impl_->options.chat_template || impl_->stop_ids.empty()) impl_->add_end_of_turn();
}

ChatEncoder::~ChatEncoder() = default;

EncodedChat ChatEncoder::encode(const Messages& messages, GenerationPrompt prompt, const Json& tools) const {
  return impl_->encode(messages, prompt, tools);
}

EncodedChat ChatEncoder::encode_answered(const Messages& messages, std::string_view answer,
                                         const Json& tools) const {
  CALYREX_CHECK(!answer.empty());
  if (!is_utf8(answer)) fail(ErrorCode::kInvalidArgument, "the answer is not UTF-8");
  return impl_->encode_answered(messages, answer, tools);
}

const std::vector<TokenId>& ChatEncoder::stop_ids() const { return impl_->stop_ids; }

const std::string& ChatEncoder::chat_template() const { return impl_->chat_template.source(); }

}  // namespace calyrex::text
