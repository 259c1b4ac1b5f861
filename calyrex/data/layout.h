// Chats from the layouts in which public data sets come; what training itself reads is row.h.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/base/fields.h"
#include "calyrex/data/row.h"

namespace calyrex::data {

enum class Layout {
  kAuto,          // told by the keys of each row
  kMessages,      // {"messages"}
  kShareGpt,      // {"conversations", "system"?, "tools"?, "chosen"?}
  kAlpaca,        // {"instruction", "input"?, "output" or "response"}
  kDolly,         // {"instruction", "context", "response"}
  kOasst,         // {"prompt": {"text", "role", "replies": [...]}}: OpenAssistant trees
  kGsm8k,         // {"question", "answer"}
  kInduction,     // {"task", "input", "output"}: instruction induction
  kGlaive,        // {"system", "chat"}: function calls in Glaive's own text form
  kSelfInstruct,  // {"instruction", "instances": [{"input", "output"}]}
  kCompletion     // {"prompt", "completion"}
};
inline constexpr auto enum_names(Layout) {
  return std::to_array<EnumName<Layout>>({{Layout::kAuto, "auto"},
                                          {Layout::kMessages, "messages"},
                                          {Layout::kShareGpt, "sharegpt"},
                                          {Layout::kAlpaca, "alpaca"},
                                          {Layout::kDolly, "dolly"},
                                          {Layout::kOasst, "oasst"},
                                          {Layout::kGsm8k, "gsm8k"},
                                          {Layout::kInduction, "induction"},
                                          {Layout::kGlaive, "glaive"},
                                          {Layout::kSelfInstruct, "self_instruct"},
                                          {Layout::kCompletion, "completion"}});
}

/// How functions and calls of a row are written.
enum class ToolForm {
  kText,     // in the system message and in plain answers (tool_text.h)
  kTemplate  // as `tools` and `tool_calls`, for templates that know them
};
inline constexpr auto enum_names(ToolForm) {
  return std::to_array<EnumName<ToolForm>>({{ToolForm::kText, "text"}, {ToolForm::kTemplate, "template"}});
}

struct LayoutOptions {
  Layout layout = Layout::kAuto;
  ToolForm tools = ToolForm::kText;
  /// Wordings of each task, for instruction induction; a row draws one of them by seed and place.
  std::map<std::string, std::vector<std::string>> instructions;
  /// OpenAssistant: only trees whose first message has this language ("en"); empty = all.
  std::string language;
  uint64_t seed = 0;
};

/// A chat, and its first user message in two parts where the layout keeps an instruction and what it works on
/// apart (both empty otherwise): such an instruction can stand in a system message.
struct LaidOutRow {
  ChatRow row;
  std::string instruction;
  std::string input;
};

/// The chats of one JSON value; none when it holds no usable one (a tree without an answer, a call that does
/// not parse, a task without input). Another layout than told: kInvalidArgument with `source`.
std::vector<LaidOutRow> parse_laid_out(const Json& json, std::string_view source,
                                       const LayoutOptions& options);

/// Rows of a file in file order; errors name file and row. Returns how many values held no usable chat.
int64_t for_each_laid_out_row(const std::filesystem::path& path, const LayoutOptions& options,
                              const std::function<void(LaidOutRow)>& row);

/// {"task": ["wording", ...]} of a JSON file.
std::map<std::string, std::vector<std::string>> read_instructions(const std::filesystem::path& path);

}  // namespace calyrex::data
