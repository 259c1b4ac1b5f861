// From a chat to token ids, with the system span and the label tokens found: the one place that does so
// (DESIGN 5).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/json.h"
#include "calyrex/base/token.h"
#include "calyrex/text/message.h"
#include "calyrex/text/tokenizer.h"
#include "calyrex/weights/adapter_folder.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::text {

struct ChatOptions {
  /// Template text that replaces the model's own; resolve_chat_template() makes it from a file or "chatml",
  /// "llama3".
  std::optional<std::string> chat_template;
  std::string template_name;     // what it belongs to, for messages; empty: the model
  Json kwargs = Json::object();  // chat_template_kwargs: enable_thinking, ...
  std::optional<std::string>
      date;  // "2026-11-29", or with "T17:05:09": what strftime_now sees; absent = today
  weights::SpanConfig span;
};

/// "chatml", "llama3", or the text of a template file (at most 256 KiB).
std::string resolve_chat_template(const std::string& name_or_path);

/// Whether it is a day of the calendar as 2026-11-29, perhaps with a time: 2026-11-29T17:05:09.
bool is_date(const std::string& text);

enum class GenerationPrompt { kNone, kAdd };

struct EncodedChat {
  std::string text;  // what the template rendered
  std::vector<TokenId> token_ids;
  /// Sorted, disjoint; empty when there is no system content (with span.role user: no user content).
  TokenSpans system_spans;
  /// One span an assistant message: content and its end-of-turn token. Starts after the generation prompt's
  /// text. Empty with GenerationPrompt::kAdd: such a chat is there to be continued.
  TokenSpans assistant_spans;
  /// False when earlier turns render differently once later ones follow (reasoning dropped, eos only at the
  /// end); then assistant_spans holds the last assistant message alone.
  bool append_only = true;
  /// Byte ranges of `text` with their origin, for `render`.
  struct Piece {
    int64_t byte_begin = 0;
    int64_t byte_end = 0;
    /// kSystem also for developer messages; kOperator is tools and template arguments.
    enum class Origin { kTemplate, kSystem, kUser, kAssistant, kTool, kOperator } origin = Origin::kTemplate;
  };
  std::vector<Piece> pieces;
  std::vector<int64_t> token_byte_begin;  // of each token, in `text`
  std::vector<int64_t> token_byte_end;
};

/// Thread-safe; immutable. Errors: kInvalidArgument for a template that fails or messages it refuses (with
/// its own words from raise_exception), or a system content that cannot be located (names the template and
/// the message).
class ChatEncoder {
 public:
  /// A model without a chat template and no option to replace it: kInvalidArgument that names
  /// --chat-template. A date that is none: kInvalidArgument.
  ChatEncoder(const weights::TokenizerSource& source, std::shared_ptr<const Tokenizer> tokenizer,
              ChatOptions options);
  ~ChatEncoder();

  /// `tools` as the OpenAI API gives them, or null.
  EncodedChat encode(const Messages& messages, GenerationPrompt prompt, const Json& tools = nullptr) const;
  /// The chat with its generation prompt and the beginning of an answer to it, tokenised as one text;
  /// assistant_spans holds the tokens of that beginning, which must not be empty.
  EncodedChat encode_answered(const Messages& messages, std::string_view answer,
                              const Json& tools = nullptr) const;

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Ids that end an answer: all of generation_config.json, or the GGUF's eos/eot, and the end-of-turn token
  /// of a template that replaces the model's own.
  const std::vector<TokenId>& stop_ids() const;
  /// The template in use, as stored with an adapter.
  const std::string& chat_template() const;

 private:
  struct Impl;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace calyrex::text
