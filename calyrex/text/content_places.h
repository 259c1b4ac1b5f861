// Finds where the foreign texts of a chat landed in its rendered text (DESIGN, "Text and the span").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calyrex/text/chat_template.h"
#include "calyrex/text/markers.h"

namespace calyrex::text {

/// Bytes [begin, end) of the rendered text that come from foreign text `index`.
struct ContentPlace {
  int64_t begin = 0;
  int64_t end = 0;
  size_t index = 0;
};

struct PlaceRequest {
  const ChatTemplate& chat_template;
  const TemplateChat& chat;
  const AddedTokenText& added;
  const std::vector<ForeignText>& texts;
  const std::string& salt;
  const std::string& rendered;  // the chat without markers
  const Rendering& marked;      // the chat with markers around every foreign text
  bool generation_prompt;
};

/// Places in text order, disjoint. Texts that the template leaves out have none. Throws kInvalidArgument that
/// names template and message when a content is in the text but its place cannot be told.
std::vector<ContentPlace> find_content_places(const PlaceRequest& request);

}  // namespace calyrex::text
