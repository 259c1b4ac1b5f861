// What `calyrex render` shows of a chat: pieces, ids, span and labels.
#pragma once

#include <string>

#include "calyrex/base/json.h"
#include "calyrex/text/chat_encoder.h"

namespace calyrex::text {

/// {"text", "token_ids", "tokens", "system_spans", "assistant_spans", "append_only", "pieces"}.
Json render_view_json(const EncodedChat& chat, const Tokenizer& tokenizer);

enum class Colour { kPlain, kAnsi };

/// One line a token: position, id, S for the system span, L for a label, the origin of its text, and its
/// text; then the spans and counts.
std::string render_view_text(const EncodedChat& chat, const Tokenizer& tokenizer, Colour colour);

/// The chat's own text with the same colours, line by line as it is; kPlain marks each stretch instead: its
/// origin, S, L. Control characters other than line ends are shown as JSON escapes them.
std::string render_chat_text(const EncodedChat& chat, Colour colour);

}  // namespace calyrex::text
