#include "calyrex/text/markers.h"

#include <algorithm>
#include <cctype>
#include <functional>

#include "calyrex/base/error.h"

namespace calyrex::text {
namespace {

using Origin = EncodedChat::Piece::Origin;

// Digits and punctuation alone: a template may change the case of a text, and JSON leaves them as they are.
std::string marker_prefix(const std::string& salt) { return "@@" + salt + "."; }
std::string marker(const std::string& salt, size_t number) {
  return marker_prefix(salt) + std::to_string(number) + "@@";
}

Origin origin_of(std::string_view role) {
  if (role == "system" || role == "developer") return Origin::kSystem;
  if (role == "assistant") return Origin::kAssistant;
  return role == "tool" ? Origin::kTool : Origin::kUser;
}

using Visit = std::function<void(std::string& text, const ForeignText& about)>;

/// Visits the strings and keys of a JSON value in which an added token could form.
void visit_json(Json& value, const AddedTokenText& added, const ForeignText& about, const Visit& visit) {
  if (value.is_string()) {
    std::string& text = value.get_ref<std::string&>();
    if (added.may_form_in(text)) visit(text, about);
  } else if (value.is_array()) {
    for (Json& item : value) visit_json(item, added, about, visit);
  } else if (value.is_object()) {
    Json::object_t visited;
    for (auto& [key, item] : value.get_ref<Json::object_t&>()) {
      std::string name = key;
      if (added.may_form_in(name)) visit(name, about);
      visit_json(item, added, about, visit);
      visited.push_back({std::move(name), std::move(item)});
    }
    value.get_ref<Json::object_t&>() = std::move(visited);
  }
}

void visit_foreign(TemplateChat& chat, const AddedTokenText& added, const Visit& visit) {
  for (size_t index = 0; index < chat.messages.size(); ++index) {
    Json& message = chat.messages[index];
    const std::string role = message["role"];
    ForeignText about;
    about.origin = origin_of(role);
    about.message = static_cast<int64_t>(index);
    for (auto& [key, value] : message.get_ref<Json::object_t&>()) {
      if (key == "role") continue;
      about.is_content = key == "content";
      about.place = fmt::format("the {} of messages[{}] ({})", key, index, role);
      if (!about.is_content) {
        visit_json(value, added, about, visit);
      } else if (value.is_string() && !value.get_ref<const std::string&>().empty()) {
        visit(value.get_ref<std::string&>(), about);
      }
    }
  }
  for (auto& [key, value] : chat.context.get_ref<Json::object_t&>()) {
    if (key.ends_with("_token")) continue;
    ForeignText about;
    about.origin = Origin::kOperator;
    about.place = key == "tools" ? "the tools" : fmt::format("chat_template_kwargs.{}", key);
    visit_json(value, added, about, visit);
  }
}

}  // namespace

AddedTokenText::AddedTokenText(const std::vector<AddedToken>& tokens) : tokens_(tokens) {
  for (const AddedToken& token : tokens_) {
    for (const char byte : token.content) {
      const auto code = static_cast<unsigned char>(byte);
      const bool ordinary = std::isalnum(code) || code == '_' || std::isspace(code);
      if (!ordinary && telling_bytes_.find(byte) == std::string::npos) telling_bytes_ += byte;
    }
  }
}

bool AddedTokenText::may_form_in(std::string_view text) const {
  return text.find_first_of(telling_bytes_) != std::string_view::npos;
}

bool AddedTokenText::is_in(std::string_view text) const {
  return std::any_of(tokens_.begin(), tokens_.end(), [&](const AddedToken& token) {
    return !token.content.empty() && text.find(token.content) != std::string_view::npos;
  });
}

int64_t AddedTokenText::count_special(std::string_view text) const {
  int64_t count = 0;
  for (const AddedToken& token : tokens_) {
    if (!token.special || token.content.empty()) continue;
    for (size_t at = text.find(token.content); at != std::string_view::npos;
         at = text.find(token.content, at + 1)) {
      ++count;
    }
  }
  return count;
}

std::vector<ForeignText> foreign_texts(const TemplateChat& chat, const AddedTokenText& added) {
  TemplateChat copy = chat;
  std::vector<ForeignText> texts;
  visit_foreign(copy, added, [&](std::string& text, const ForeignText& about) {
    texts.push_back(about);
    texts.back().text = text;
  });
  return texts;
}

TemplateChat mark_chat(const TemplateChat& chat, const AddedTokenText& added, Marking marking,
                       const std::string& salt, std::optional<size_t> only) {
  TemplateChat marked = chat;
  size_t index = 0;
  visit_foreign(marked, added, [&](std::string& text, const ForeignText&) {
    const size_t own = index++;
    if (only && *only != own) return;
    text = marker(salt, 2 * own) + (marking == Marking::kAround ? text : "") + marker(salt, 2 * own + 1);
  });
  return marked;
}

std::string choose_salt(const TemplateChat& chat, std::string_view template_source) {
  const std::string all = to_json_line(chat.messages) + to_json_line(chat.context);
  for (int number = 7301;; ++number) {
    std::string salt = std::to_string(number);
    const std::string prefix = marker_prefix(salt);
    if (all.find(prefix) == std::string::npos && template_source.find(prefix) == std::string_view::npos)
      return salt;
  }
}

std::optional<std::vector<MarkedPiece>> cut_at_markers(std::string_view rendered, const std::string& salt) {
  const std::string prefix = marker_prefix(salt);
  std::vector<MarkedPiece> pieces;
  int64_t open = -1;  // number of the begin marker that is open
  size_t start = 0;
  for (size_t at = rendered.find(prefix); at != std::string_view::npos; at = rendered.find(prefix, start)) {
    const size_t digits = at + prefix.size();
    const size_t end = rendered.find("@@", digits);
    if (end == std::string_view::npos || end == digits || end - digits > 9) return std::nullopt;
    const std::string number(rendered.substr(digits, end - digits));
    if (number.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
    const int64_t value = std::stoll(number);
    const bool opens = value % 2 == 0;
    if (opens ? open >= 0 : open != value - 1) return std::nullopt;
    pieces.push_back({opens ? -1 : value / 2, rendered.substr(start, at - start)});
    open = opens ? value : -1;
    start = end + 2;
  }
  if (open >= 0) return std::nullopt;
  pieces.push_back({-1, rendered.substr(start)});
  return pieces;
}

std::string marker_pair(const std::string& salt, size_t index) {
  return marker(salt, 2 * index) + marker(salt, 2 * index + 1);
}

}  // namespace calyrex::text
