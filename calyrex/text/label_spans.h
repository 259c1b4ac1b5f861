// Finds the tokens to train on: each assistant message's content with its end-of-turn token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calyrex/text/chat_encoder.h"
#include "calyrex/text/chat_template.h"
#include "calyrex/text/tokenizer.h"

namespace calyrex::text {

/// Renderings that tell where an assistant message begins and ends.
struct AssistantTurn {
  size_t message = 0;
  /// The messages before it with the generation prompt.
  Rendering before;
  /// Up to and with it; for the last message of a chat the chat itself.
  Rendering through;
  /// Bytes of its content in the chat's text; -1 when it has none there.
  int64_t content_begin = -1;
  int64_t content_end = -1;
  /// Where the next message's content begins, or the text's end.
  int64_t limit = 0;
};

/// Fills assistant_spans and append_only of a chat whose tokens and pieces are set. `turns` in order.
void find_label_spans(const std::vector<AssistantTurn>& turns, const Tokenizer& tokenizer,
                      const std::vector<TokenId>& stop_ids, EncodedChat& chat);

/// Tokens that overlap bytes [begin, end) of the chat's text at all; empty when there are none.
TokenSpan tokens_overlapping(const EncodedChat& chat, int64_t begin, int64_t end);

}  // namespace calyrex::text
