#include "calyrex/text/content_places.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "calyrex/base/error.h"
#include "calyrex/text/utf8.h"

namespace calyrex::text {
namespace {

using Places = std::vector<ContentPlace>;
using Pieces = std::vector<MarkedPiece>;
using Origin = EncodedChat::Piece::Origin;

ContentPlace place_at(size_t begin, size_t size, size_t index) {
  return {static_cast<int64_t>(begin), static_cast<int64_t>(begin + size), index};
}

/// A content as it is, and as templates trim it.
std::array<std::string_view, 4> trimmed_forms(std::string_view text) {
  return {text, trim_end(text), trim_start(text), trim_end(trim_start(text))};
}

/// All markers at once: the plain text must be the same literals with the marked texts, perhaps trimmed,
/// between.
std::optional<Places> align(std::string_view plain, const Pieces& pieces) {
  Places places;
  std::string_view rest = plain;
  for (size_t at = 0; at < pieces.size(); at += 2) {
    if (!rest.starts_with(pieces[at].text)) return std::nullopt;
    rest.remove_prefix(pieces[at].text.size());
    if (at + 1 == pieces.size()) break;
    const std::string_view literal = pieces[at + 2].text;
    const bool last = at + 3 == pieces.size();
    bool found = false;
    for (const std::string_view form : trimmed_forms(pieces[at + 1].text)) {
      if (!rest.starts_with(form)) continue;
      const std::string_view after = rest.substr(form.size());
      if (last ? after != literal : !after.starts_with(literal)) continue;
      places.push_back(
          place_at(plain.size() - rest.size(), form.size(), static_cast<size_t>(pieces[at + 1].index)));
      rest = after;
      found = true;
      break;
    }
    if (!found) return std::nullopt;
  }
  if (pieces.size() == 1 && !rest.empty()) return std::nullopt;
  return places;
}

/// Markers at one text only: what lies between the literals is that text, however the template changed it.
std::optional<Places> align_one(std::string_view plain, const Pieces& pieces, size_t index) {
  const size_t count = pieces.size() / 2;
  size_t literals = 0;
  for (size_t at = 0; at < pieces.size(); at += 2) literals += pieces[at].text.size();
  if (count == 0 || literals > plain.size() || (plain.size() - literals) % count != 0) return std::nullopt;
  const size_t size = (plain.size() - literals) / count;
  Places places;
  size_t begin = 0;
  for (size_t at = 0; at < pieces.size(); at += 2) {
    if (!plain.substr(begin).starts_with(pieces[at].text)) return std::nullopt;
    begin += pieces[at].text.size();
    if (at + 1 == pieces.size()) break;
    places.push_back(place_at(begin, size, index));
    if (plain.substr(begin, size) != plain.substr(static_cast<size_t>(places[0].begin), size))
      return std::nullopt;
    begin += size;
  }
  return places;
}

/// The one place where the text, or a trimmed form of it, is in the rendering.
std::optional<Places> find_unique(std::string_view plain, std::string_view text, size_t index) {
  for (const std::string_view form : trimmed_forms(text)) {
    if (form.empty()) continue;
    const size_t first = plain.find(form);
    if (first == std::string_view::npos) continue;
    if (plain.find(form, first + 1) != std::string_view::npos) return std::nullopt;
    return Places{place_at(first, form.size(), index)};
  }
  return std::nullopt;
}

/// An assistant's text of which the template kept a part (reasoning dropped): all that differs once a marker
/// stands in its stead, provided that this is no more than the text could have brought.
std::optional<Places> differing_part(const PlaceRequest& request, const Rendering& replaced, size_t index) {
  const ForeignText& text = request.texts[index];
  if (text.origin != Origin::kAssistant || !replaced.ok) return std::nullopt;
  const auto pieces = cut_at_markers(replaced.text, request.salt);
  if (!pieces || pieces->size() != 3) return std::nullopt;
  const std::string_view plain = request.rendered;
  const std::string_view after = (*pieces)[2].text;
  const size_t begin = common_prefix(plain, (*pieces)[0].text);
  if (!plain.ends_with(after) || begin + after.size() > plain.size()) return std::nullopt;
  const size_t size = plain.size() - after.size() - begin;
  if (request.added.count_special(plain.substr(begin, size)) > request.added.count_special(text.text)) {
    return std::nullopt;
  }
  return Places{place_at(begin, size, index)};
}

[[noreturn]] void fail_to_find(const PlaceRequest& request, size_t index) {
  fail(ErrorCode::kInvalidArgument,
       "{}: cannot tell where it writes {}; use a template that writes contents unchanged (--chat-template)",
       request.chat_template.name(), request.texts[index].place);
}

/// One text by itself, by whichever way works.
Places find_one(const PlaceRequest& request, const Rendering& around, const Rendering& replaced,
                size_t index) {
  const ForeignText& text = request.texts[index];
  const bool blank = trim_start(text.text).empty();
  if (around.ok && replaced.ok && around.text == request.rendered && replaced.text == request.rendered)
    return {};
  if (const auto pieces = around.ok ? cut_at_markers(around.text, request.salt) : std::nullopt) {
    if (const auto places = align_one(request.rendered, *pieces, index)) return *places;
  }
  if (const auto places = find_unique(request.rendered, text.text, index)) return *places;
  if (const auto places = differing_part(request, replaced, index)) return *places;
  if (blank || (!text.is_content && !request.added.is_in(text.text))) return {};
  fail_to_find(request, index);
}

Places find_each(const PlaceRequest& request) {
  std::vector<TemplateChat> chats;
  std::vector<RenderVariant> variants;
  for (size_t index = 0; index < request.texts.size(); ++index) {
    for (const Marking marking : {Marking::kAround, Marking::kInstead}) {
      variants.push_back({chats.size(), request.chat.messages.size(), request.generation_prompt});
      chats.push_back(mark_chat(request.chat, request.added, marking, request.salt, index));
    }
  }
  const std::vector<Rendering> renderings = request.chat_template.render(chats, variants);
  Places places;
  for (size_t index = 0; index < request.texts.size(); ++index) {
    const Places own = find_one(request, renderings[2 * index], renderings[2 * index + 1], index);
    places.insert(places.end(), own.begin(), own.end());
  }
  return places;
}

/// A text without a place was left out, or its markers were lost: then only a closer look tells.
bool lacks_a_telling_text(const PlaceRequest& request, const Places& places) {
  std::vector<bool> found(request.texts.size());
  for (const ContentPlace& place : places) found[place.index] = true;
  for (size_t index = 0; index < found.size(); ++index) {
    if (!found[index] && request.added.may_form_in(request.texts[index].text)) return true;
  }
  return false;
}

}  // namespace

std::vector<ContentPlace> find_content_places(const PlaceRequest& request) {
  if (request.texts.empty()) return {};
  std::optional<Places> places;
  if (request.marked.ok) {
    if (const auto pieces = cut_at_markers(request.marked.text, request.salt)) {
      places = align(request.rendered, *pieces);
    }
  }
  if (!places || lacks_a_telling_text(request, *places)) places = find_each(request);
  std::sort(places->begin(), places->end(), [](const ContentPlace& a, const ContentPlace& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  for (size_t index = 1; index < places->size(); ++index) {
    if ((*places)[index].begin < (*places)[index - 1].end) fail_to_find(request, (*places)[index].index);
  }
  return *places;
}

}  // namespace calyrex::text
