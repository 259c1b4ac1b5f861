#include "calyrex/text/label_spans.h"

#include <algorithm>

#include "calyrex/text/utf8.h"

namespace calyrex::text {
namespace {

bool is_prefix(const Rendering& rendering, std::string_view text) {
  return rendering.ok && text.starts_with(rendering.text);
}

/// First token that starts at or after a byte.
int64_t first_token_from(const EncodedChat& chat, int64_t byte) {
  const auto& begins = chat.token_byte_begin;
  return std::lower_bound(begins.begin(), begins.end(), byte) - begins.begin();
}

/// First token that ends after a byte.
int64_t first_token_after(const EncodedChat& chat, int64_t byte) {
  const auto& ends = chat.token_byte_end;
  return std::upper_bound(ends.begin(), ends.end(), byte) - ends.begin();
}

int64_t first_label_token(const AssistantTurn& turn, const EncodedChat& chat) {
  if (is_prefix(turn.before, chat.text)) {
    return first_token_from(chat, static_cast<int64_t>(turn.before.text.size()));
  }
  if (turn.content_begin >= 0) return first_token_from(chat, turn.content_begin);
  return first_token_after(chat, static_cast<int64_t>(common_prefix(turn.before.text, chat.text)));
}

/// One past the end-of-turn token: the last special token that the turn's own text ends with, a stop token
/// before any other. Where the turn's end is not known, the first special token after the content.
int64_t label_end(const AssistantTurn& turn, const EncodedChat& chat, const Tokenizer& tokenizer,
                  const std::vector<TokenId>& stop_ids, int64_t first) {
  const bool exact = is_prefix(turn.through, chat.text);
  const int64_t limit = exact ? static_cast<int64_t>(turn.through.text.size()) : turn.limit;
  const int64_t content_end =
      std::max(turn.content_end,
               first < static_cast<int64_t>(chat.token_ids.size()) ? chat.token_byte_begin[first] : limit);
  const auto stops = [&](int64_t token) {
    return std::find(stop_ids.begin(), stop_ids.end(), chat.token_ids[token]) != stop_ids.end();
  };
  int64_t special = -1;
  int64_t stop = -1;
  for (int64_t token = first; token < first_token_from(chat, limit); ++token) {
    if (chat.token_byte_begin[token] < turn.content_end || !tokenizer.is_special(chat.token_ids[token]))
      continue;
    if (exact || special < 0) special = token;
    if (stops(token) && (exact || stop < 0)) stop = token;
  }
  if (stop >= 0) return stop + 1;
  if (special >= 0) return special + 1;
  return std::max(first, tokens_overlapping(chat, 0, content_end).end);
}

}  // namespace

TokenSpan tokens_overlapping(const EncodedChat& chat, int64_t begin, int64_t end) {
  if (begin >= end) return {};
  const TokenSpan span = {first_token_after(chat, begin), first_token_from(chat, end)};
  return span.begin < span.end ? span : TokenSpan();
}

void find_label_spans(const std::vector<AssistantTurn>& turns, const Tokenizer& tokenizer,
                      const std::vector<TokenId>& stop_ids, EncodedChat& chat) {
  for (size_t index = 0; index < turns.size(); ++index) {
    const AssistantTurn& turn = turns[index];
    const bool last = index + 1 == turns.size();
    const bool unchanged =
        chat.append_only && is_prefix(turn.through, chat.text) && (last || is_prefix(turn.before, chat.text));
    if (!unchanged) {
      chat.append_only = false;
      chat.assistant_spans.clear();
      if (!last) continue;
    }
    const int64_t first = first_label_token(turn, chat);
    const int64_t end = label_end(turn, chat, tokenizer, stop_ids, first);
    if (first < end) chat.assistant_spans.push_back({first, end});
  }
}

}  // namespace calyrex::text
