// Tokenizers, from tokenizer.json or GGUF metadata, over the Rust crate `tokenizers` (bridge/).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/token.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::text {

/// Which added tokens are recognised in a piece of text.
enum class AddedTokens {
  kNone,        // plain text: what a user, an operator or a tool typed
  kNonSpecial,  // those with special: false (tool calls and reasoning marks in assistant text)
  kAll,         // text that the template wrote
};

struct Encoding {
  std::vector<TokenId> ids;
  std::vector<int64_t> byte_begin;  // of each token, in the text given; same length as ids
  std::vector<int64_t> byte_end;
};

/// Bytes [begin, end) of a text in which added tokens are recognised.
struct AddedTokenRange {
  int64_t begin = 0;
  int64_t end = 0;
  AddedTokens added = AddedTokens::kAll;
};

/// A token beside the model's own vocabulary, matched in the text before that is applied.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;
};

/// Thread-safe; immutable.
class Tokenizer {
 public:
  /// Throws kUnsupported for a GGUF pre-tokenizer or model it does not know, kCorruptData for a broken file.
  static std::shared_ptr<const Tokenizer> create(const weights::TokenizerSource& source);
  virtual ~Tokenizer() = default;

  /// Encodes without BOS/EOS. `text` must be UTF-8 (else kInvalidArgument).
  virtual Encoding encode(std::string_view text, AddedTokens added) const = 0;
  /// The same with added tokens recognised in `ranges` alone (sorted, disjoint): an added token counts when
  /// ranges that allow it cover its bytes. The text between two such tokens is tokenised as one piece.
  virtual Encoding encode(std::string_view text, std::span<const AddedTokenRange> ranges) const = 0;
  /// Text of ids; added tokens with special: true are left out when `skip_special`.
  enum class SpecialTokens { kKeep, kSkip };
  virtual std::string decode(const std::vector<TokenId>& ids, SpecialTokens special) const = 0;
  virtual int64_t vocab_size() const = 0;
  virtual std::optional<TokenId> token_to_id(std::string_view token) const = 0;
  virtual std::string id_to_token(TokenId id) const = 0;
  /// True for added tokens that mark structure (special: true).
  virtual bool is_special(TokenId id) const = 0;
  /// All added tokens, by id.
  virtual const std::vector<AddedToken>& added_tokens() const = 0;
  /// BOS id when the tokenizer's configuration says that plain text starts with it.
  virtual std::optional<TokenId> bos_to_add() const = 0;
  virtual std::optional<std::string> bos_token() const = 0;
  virtual std::optional<std::string> eos_token() const = 0;
  /// The whole tokenizer as a tokenizer.json of Hugging Face, wherever it came from.
  virtual std::string to_json() const = 0;
};

/// Turns a growing list of ids into text that never ends inside a character. `push` returns the text that
/// became final; `finish` the rest (a half character becomes U+FFFD). Special tokens give no text.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(std::shared_ptr<const Tokenizer> tokenizer);
  std::string push(TokenId id);
  std::string finish();

 private:
  std::string decode_window() const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<TokenId> window_;  // the ids last emitted, as context, and those after them
  size_t context_ = 0;           // ids of the window that are context
  size_t sent_ = 0;              // bytes of the window's text that were returned
};

}  // namespace calyrex::text
