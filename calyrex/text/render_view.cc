#include "calyrex/text/render_view.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace calyrex::text {
namespace {

using Origin = EncodedChat::Piece::Origin;

std::string_view origin_name(Origin origin) {
  switch (origin) {
    case Origin::kSystem:
      return "system";
    case Origin::kUser:
      return "user";
    case Origin::kAssistant:
      return "assistant";
    case Origin::kTool:
      return "tool";
    case Origin::kOperator:
      return "operator";
    default:
      return "template";
  }
}

/// Terminal colours; labels are underlined, the span is bold besides.
std::string_view origin_colour(Origin origin) {
  switch (origin) {
    case Origin::kSystem:
      return "\x1b[33m";
    case Origin::kUser:
      return "\x1b[36m";
    case Origin::kAssistant:
      return "\x1b[32m";
    case Origin::kTool:
    case Origin::kOperator:
      return "\x1b[35m";
    default:
      return "\x1b[90m";
  }
}

bool contains(const TokenSpans& spans, int64_t token) {
  return std::any_of(spans.begin(), spans.end(),
                     [&](const TokenSpan& span) { return span.begin <= token && token < span.end; });
}

Json spans_json(const TokenSpans& spans) {
  Json list = Json::array();
  for (const TokenSpan& span : spans) list.push_back({span.begin, span.end});
  return list;
}

std::string_view token_text(const EncodedChat& chat, size_t token) {
  const auto begin = static_cast<size_t>(chat.token_byte_begin[token]);
  return std::string_view(chat.text).substr(begin, static_cast<size_t>(chat.token_byte_end[token]) - begin);
}

/// Control characters of foreign text must not reach the terminal: shown as JSON escapes them.
std::string visible(std::string_view text) { return to_json_line(Json(std::string(text))); }

/// The same for running text: line ends and tabs stay, quotes and backslashes are themselves.
std::string visible_lines(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (c == 0xc2 && next >= 0x80 && next < 0xa0) {  // C1 controls
      result += fmt::format("\\u{:04x}", next);
      ++i;
    } else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
      result += fmt::format("\\u{:04x}", c);
    } else {
      result += text[i];
    }
  }
  return result;
}

/// A stretch of text of one origin that is all span or none, all label or none.
struct Stretch {
  int64_t begin = 0;
  int64_t end = 0;
  Origin origin = Origin::kTemplate;
  bool system = false;
  bool label = false;
};

std::vector<Stretch> stretches_of(const EncodedChat& chat) {
  std::vector<Stretch> stretches;
  size_t piece = 0;
  for (size_t token = 0; token < chat.token_ids.size(); ++token) {
    while (piece + 1 < chat.pieces.size() && chat.pieces[piece].byte_end <= chat.token_byte_begin[token])
      ++piece;
    const Stretch next{.begin = stretches.empty() ? 0 : stretches.back().end,
                       .end = chat.token_byte_end[token],
                       .origin = chat.pieces[piece].origin,
                       .system = contains(chat.system_spans, static_cast<int64_t>(token)),
                       .label = contains(chat.assistant_spans, static_cast<int64_t>(token))};
    if (!stretches.empty() && stretches.back().origin == next.origin &&
        stretches.back().system == next.system && stretches.back().label == next.label) {
      stretches.back().end = next.end;
    } else {
      stretches.push_back(next);
    }
  }
  return stretches;
}

std::string span_list(const TokenSpans& spans) {
  if (spans.empty()) return "none";
  std::string list;
  for (const TokenSpan& span : spans)
    list += fmt::format("{}{}..{}", list.empty() ? "" : ", ", span.begin, span.end);
  return list;
}

}  // namespace

Json render_view_json(const EncodedChat& chat, const Tokenizer& tokenizer) {
  Json pieces = Json::array();
  for (const EncodedChat::Piece& piece : chat.pieces) {
    const auto size = static_cast<size_t>(piece.byte_end - piece.byte_begin);
    pieces.push_back({{"begin", piece.byte_begin},
                      {"end", piece.byte_end},
                      {"origin", origin_name(piece.origin)},
                      {"text", chat.text.substr(static_cast<size_t>(piece.byte_begin), size)}});
  }
  Json tokens = Json::array();
  for (const TokenId id : chat.token_ids) tokens.push_back(tokenizer.id_to_token(id));
  return {{"text", chat.text},
          {"token_ids", chat.token_ids},
          {"tokens", std::move(tokens)},
          {"system_spans", spans_json(chat.system_spans)},
          {"assistant_spans", spans_json(chat.assistant_spans)},
          {"append_only", chat.append_only},
          {"pieces", std::move(pieces)}};
}

std::string render_view_text(const EncodedChat& chat, const Tokenizer& tokenizer, Colour colour) {
  std::string out;
  size_t piece = 0;
  for (size_t token = 0; token < chat.token_ids.size(); ++token) {
    while (piece + 1 < chat.pieces.size() && chat.pieces[piece].byte_end <= chat.token_byte_begin[token])
      ++piece;
    const Origin origin = chat.pieces[piece].origin;
    const bool system = contains(chat.system_spans, static_cast<int64_t>(token));
    const bool label = contains(chat.assistant_spans, static_cast<int64_t>(token));
    std::string text = visible(token_text(chat, token));
    if (colour == Colour::kAnsi) {
      text = fmt::format("{}{}{}{}\x1b[0m", origin_colour(origin), system ? "\x1b[1m" : "",
                         label ? "\x1b[4m" : "", text);
    }
    out += fmt::format("{:>6} {:>7} {}{} {:<9} {}\n", token, chat.token_ids[token], system ? 'S' : '.',
                       label ? 'L' : '.', origin_name(origin), text);
  }
  out += fmt::format("{} tokens; system span (S): {}; labels (L): {}\n", chat.token_ids.size(),
                     span_list(chat.system_spans), span_list(chat.assistant_spans));
  if (!chat.append_only) {
    out += "earlier turns read differently once later ones follow, so the last answer alone is trained\n";
  }
  return out;
}

std::string render_chat_text(const EncodedChat& chat, Colour colour) {
  std::string out;
  for (const Stretch& stretch : stretches_of(chat)) {
    const auto begin = static_cast<size_t>(stretch.begin);
    const std::string text =
        visible_lines(std::string_view(chat.text).substr(begin, static_cast<size_t>(stretch.end) - begin));
    if (colour == Colour::kAnsi) {
      out += fmt::format("{}{}{}{}\x1b[0m", origin_colour(stretch.origin), stretch.system ? "\x1b[1m" : "",
                         stretch.label ? "\x1b[4m" : "", text);
    } else {
      out += fmt::format("[{}{}{}] {}\n", origin_name(stretch.origin), stretch.system ? " S" : "",
                         stretch.label ? " L" : "", text);
    }
  }
  return out;
}

}  // namespace calyrex::text
