// What the readers of layouts share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calyrex/data/layout.h"

namespace calyrex::data {

/// Throws kInvalidArgument: "<source>: <what> (layout <name>)".
[[noreturn]] void fail_layout(std::string_view source, Layout layout, std::string_view what);

/// A text field; absent or of another kind fails.
const std::string& layout_text(const Json& json, const char* name, std::string_view source, Layout layout);

text::Message make_message(std::string role, std::string content);

/// ShareGPT with functions: roles function_call and observation, "tools" as text or list, "chosen".
std::vector<LaidOutRow> read_share_gpt(const Json& json, std::string_view source,
                                       const LayoutOptions& options);
/// Glaive's text form.
std::vector<LaidOutRow> read_glaive(const Json& json, std::string_view source, const LayoutOptions& options);
/// The path of best ranked replies through an OpenAssistant tree, up to its last answer.
std::vector<LaidOutRow> read_oasst(const Json& json, std::string_view source, const LayoutOptions& options);

}  // namespace calyrex::data
