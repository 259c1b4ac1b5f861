#include "calyrex/eval/core/form.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"

namespace calyrex::eval {
namespace {

constexpr std::array<std::pair<Form, std::string_view>, 6> kForms = {{{Form::kUser, "user"},
                                                                      {Form::kNeutral, "neutral"},
                                                                      {Form::kSystem, "system"},
                                                                      {Form::kFile, "file"},
                                                                      {Form::kTools, "tools"},
                                                                      {Form::kRaw, "raw"}}};

std::string join_paragraphs(std::string_view instruction, std::string_view text) {
  if (instruction.empty()) return std::string(text);
  if (text.empty()) return std::string(instruction);
  return fmt::format("{}\n\n{}", instruction, text);
}

text::Message message(std::string_view role, std::string content) {
  return {.role = std::string(role), .content = std::move(content)};
}

}  // namespace

std::string_view form_name(Form form) {
  for (const auto& [value, name] : kForms) {
    if (value == form) return name;
  }
  return "?";
}

std::optional<Form> find_form(std::string_view name) {
  for (const auto& [value, known] : kForms) {
    if (known == name) return value;
  }
  return std::nullopt;
}

Form parse_form(std::string_view name) {
  if (const std::optional<Form> form = find_form(name)) return *form;
  fail(ErrorCode::kInvalidArgument, "form '{}': expected user, neutral, system, file, tools or raw", name);
}

void require_form(const TaskInfo& info, Form form) {
  std::string names;
  for (const Form known : info.forms) {
    if (known == form) return;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", form_name(known));
  }
  fail(ErrorCode::kUnsupported, "{} has no form '{}': choose {}", info.name, form_name(form), names);
}

text::Messages form_messages(const LoadOptions& options, std::string_view instruction,
                             std::string_view text) {
  text::Messages messages;
  if (options.form == Form::kSystem) {
    CALYREX_CHECK(!instruction.empty(), "this task has no instruction for a system message");
    messages.push_back(message("system", std::string(instruction)));
    messages.push_back(message("user", std::string(text)));
    return messages;
  }
  if (options.form == Form::kNeutral || options.form == Form::kTools)
    messages.push_back(message("system", std::string(kNeutralSystem)));
  if (options.form == Form::kFile) messages.push_back(message("system", options.form_text));
  messages.push_back(message("user", join_paragraphs(instruction, text)));
  return messages;
}

}  // namespace calyrex::eval
