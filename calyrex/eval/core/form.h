// Names of the forms, and the chat that a form makes of an instruction and a text.
#pragma once

#include <string>
#include <string_view>

#include "calyrex/eval/core/task.h"

namespace calyrex::eval {

/// "user", "neutral", "system", "file", "tools", "raw".
std::string_view form_name(Form form);
/// The form of that name, if there is one.
std::optional<Form> find_form(std::string_view name);
/// The same; kInvalidArgument lists the names.
Form parse_form(std::string_view name);

/// kUnsupported, listing the task's forms, when it lacks `form`.
void require_form(const TaskInfo& info, Form form);

/// The system message of Form::kNeutral and Form::kTools.
inline constexpr std::string_view kNeutralSystem = "You are a helpful assistant.";

/// The chat of a task that asks with `instruction` about `text`: kUser puts both into the user message (a
/// blank line between), kSystem the instruction into the system message, kNeutral and kFile keep both in the
/// user message below their own system message. An empty instruction leaves no trace; kSystem needs one.
text::Messages form_messages(const LoadOptions& options, std::string_view instruction, std::string_view text);

}  // namespace calyrex::eval
