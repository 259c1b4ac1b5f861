// Marks the strings of a chat that did not come from its template, so that a second rendering shows where
// they land.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/text/chat_encoder.h"
#include "calyrex/text/chat_template.h"
#include "calyrex/text/tokenizer.h"

namespace calyrex::text {

/// A string that a user, an operator, a tool or the assistant wrote.
struct ForeignText {
  std::string text;
  EncodedChat::Piece::Origin origin = EncodedChat::Piece::Origin::kUser;
  int64_t message = -1;     // index; -1 for tools and keyword arguments
  bool is_content = false;  // of the message, not of another field
  std::string place;        // "the content of messages[1] (user)", for messages
};

/// Tells which strings could hold, or help to form, the text of an added token.
class AddedTokenText {
 public:
  explicit AddedTokenText(const std::vector<AddedToken>& tokens);
  /// Whether the string has a character, other than letters, digits, `_` and spaces, that added tokens are
  /// made of.
  bool may_form_in(std::string_view text) const;
  /// Whether the string holds the whole text of an added token.
  bool is_in(std::string_view text) const;
  /// Occurrences of the texts of special tokens.
  int64_t count_special(std::string_view text) const;

 private:
  std::vector<AddedToken> tokens_;
  std::string telling_bytes_;
};

/// The foreign texts of a chat in a fixed order: every content that is not empty, and those other strings and
/// keys in which an added token could form.
std::vector<ForeignText> foreign_texts(const TemplateChat& chat, const AddedTokenText& added);

enum class Marking {
  kAround,   // "<begin marker>text<end marker>"
  kInstead,  // "<begin marker><end marker>"
};

/// The chat with markers at all foreign texts, or at the one with index `only`. `salt` tells markers from
/// text.
TemplateChat mark_chat(const TemplateChat& chat, const AddedTokenText& added, Marking marking,
                       const std::string& salt, std::optional<size_t> only = std::nullopt);

/// A salt whose markers occur neither in the chat nor in the template.
std::string choose_salt(const TemplateChat& chat, std::string_view template_source);

/// Text between markers, in order. `index` is the foreign text's, or -1 for what lies outside of all markers.
struct MarkedPiece {
  int64_t index = -1;
  std::string_view text;
};

/// Cuts a marked rendering at its markers: literal, marked, literal, ..., literal. nullopt when markers were
/// lost or torn apart.
std::optional<std::vector<MarkedPiece>> cut_at_markers(std::string_view rendered, const std::string& salt);

/// A pair of markers with nothing between; for texts that are not in the chat.
std::string marker_pair(const std::string& salt, size_t index);

}  // namespace calyrex::text
