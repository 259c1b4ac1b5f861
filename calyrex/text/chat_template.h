// A compiled chat template (bridge/src/template.rs renders it).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calyrex/base/json.h"

namespace calyrex::text {

/// One chat as templates see it: messages, and what else they may name (tools, special tokens, keyword
/// arguments).
struct TemplateChat {
  Json messages = Json::array();
  Json context = Json::object();
};

/// What to render: the first `count` messages of a chat.
struct RenderVariant {
  size_t chat = 0;
  size_t count = 0;
  bool generation_prompt = false;
};

struct Rendering {
  bool ok = false;
  std::string text;      // the rendered text, or why it could not be rendered
  bool refused = false;  // the template's own words (raise_exception)
};

/// Thread-safe; immutable. A template is foreign code: its size, time, memory, output and nesting are
/// bounded, and one that breaks a bound of time or memory is not run again.
class ChatTemplate {
 public:
  /// Throws kInvalidArgument for a template that does not parse; `name` says whose it is.
  ChatTemplate(std::string source, std::string name);

  /// In the order of `variants`. Throws kInvalidArgument when the template had to be stopped.
  std::vector<Rendering> render(const std::vector<TemplateChat>& chats,
                                const std::vector<RenderVariant>& variants) const;

  const std::string& source() const { return source_; }
  /// "chat template of <model>", for messages.
  const std::string& name() const { return name_; }

 private:
  struct Handle;
  std::string source_;
  std::string name_;
  std::shared_ptr<const Handle> handle_;
};

}  // namespace calyrex::text
