// How a model is told of functions, in each form.
#pragma once

#include <string>

#include "calyrex/eval/core/task.h"
#include "calyrex/eval/scorers/calls.h"

namespace calyrex::eval {

/// The ask of a chat that may call functions. kTools: through the template's `tools`, with the chat's own or
/// the neutral system message. kSystem: schemas and the format of calls in the system message, behind the
/// chat's own. kUser: at the head of the first user message.
GenerateAsk call_ask(const LoadOptions& options, const Json& functions, text::Messages chat);

/// A call of the chat's history, and what came back, as the form writes them.
text::Message call_message(const LoadOptions& options, const FunctionCall& call);
text::Message result_message(const LoadOptions& options, const std::string& result);

}  // namespace calyrex::eval
