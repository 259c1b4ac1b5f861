#include "calyrex/cli/chat_session.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "calyrex/base/error.h"
#include "calyrex/lm/answer_stream.h"

namespace calyrex::cli {
namespace {

constexpr std::string_view kHelp =
    "/system TEXT             set the system message (without TEXT: remove it)\n"
    "/adapter off|on|SCALE    the adapter's strength; 0 is the base model\n"
    "/both                    answer with base and adapter, one below the other (again: stop that)\n"
    "/reset                   forget the conversation, keep the system message\n"
    "/help                    this list\n"
    "/quit                    leave\n"
    "//...                    a message that begins with a slash";

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace

ChatSession::ChatSession(lm::LanguageModel& model, ChatSettings settings, ChatConsole console)
    : model_(model),
      settings_(std::move(settings)),
      console_(std::move(console)),
      adapter_on_(!settings_.adapter.name.empty()) {
  if (!settings_.system.empty()) note_span();
}

ChatSession::Next ChatSession::handle(std::string_view line) {
  try {
    if (line.starts_with("/") && !line.starts_with("//")) return run_command(line);
    const std::string_view text = line.starts_with("//") ? line.substr(1) : line;
    if (!trim(text).empty()) say(text);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    console_.note(fmt::format("error: {}", error.what()));
  }
  return Next::kContinue;
}

ChatSession::Next ChatSession::run_command(std::string_view line) {
  const size_t space = line.find(' ');
  const std::string_view name = trim(line.substr(0, space));
  const std::string_view argument =
      space == std::string_view::npos ? std::string_view{} : trim(line.substr(space));
  if (name == "/quit" || name == "/exit") return Next::kQuit;
  if (name == "/system") {
    set_system(argument);
  } else if (name == "/adapter") {
    set_adapter(argument);
  } else if (name == "/both") {
    toggle_both();
  } else if (name == "/reset") {
    history_.clear();
    console_.note("The conversation is forgotten.");
  } else if (name == "/help") {
    console_.note(kHelp);
  } else {
    console_.note(fmt::format("There is no command {}; /help lists them.", name));
  }
  return Next::kContinue;
}

void ChatSession::set_system(std::string_view text) {
  settings_.system = std::string(text);
  if (text.empty()) {
    console_.note("No system message.");
  } else {
    note_span();
  }
}

void ChatSession::set_adapter(std::string_view argument) {
  if (settings_.adapter.name.empty()) {
    fail(ErrorCode::kInvalidArgument, "no adapter is loaded; start the chat with --adapter DIR");
  }
  if (argument == "off") {
    adapter_on_ = false;
  } else if (argument == "on") {
    adapter_on_ = true;
  } else if (!argument.empty()) {
    double scale = 0.0;
    const auto [end, status] = std::from_chars(argument.data(), argument.data() + argument.size(), scale);
    if (status != std::errc() || end != argument.data() + argument.size() || !std::isfinite(scale)) {
      fail(ErrorCode::kInvalidArgument, "/adapter {}: expected off, on or a number", argument);
    }
    settings_.adapter.scale = scale;
    adapter_on_ = true;
  }
  console_.note(fmt::format("Adapter: {}.", adapter_state()));
}

void ChatSession::toggle_both() {
  if (settings_.adapter.name.empty()) {
    fail(ErrorCode::kInvalidArgument, "no adapter is loaded; start the chat with --adapter DIR");
  }
  both_ = !both_;
  console_.note(both_ ? "Base and adapter answer; the conversation goes on with the adapter's answer."
                      : "One answer again.");
}

std::string ChatSession::adapter_state() const {
  if (settings_.adapter.name.empty()) return "none";
  return adapter_on_ ? fmt::format("on, strength {}", settings_.adapter.scale) : "off";
}

text::Messages ChatSession::with_system() const {
  text::Messages messages;
  if (!settings_.system.empty()) messages.push_back({.role = "system", .content = settings_.system});
  messages.insert(messages.end(), history_.begin(), history_.end());
  return messages;
}

lm::GenerateRequest ChatSession::request(const text::Messages& messages, double scale) const {
  lm::GenerateRequest request;
  request.prompt.messages = messages;
  request.adapter = {.name = settings_.adapter.name, .scale = scale};
  request.sampling = settings_.sampling;
  request.max_new_tokens = settings_.max_new_tokens;
  return request;
}

lm::Completion ChatSession::stream(lm::GenerateRequest request) {
  lm::AnswerStream answer(model_, std::move(request));
  bool cancelled = false;
  while (!answer.done()) {
    console_.answer(answer.read(std::chrono::milliseconds(50)));
    if (!cancelled && console_.interrupted()) {
      answer.cancel();
      cancelled = true;
    }
  }
  console_.answer("\n");
  return answer.finish();
}

void ChatSession::say(std::string_view text) {
  text::Messages messages = with_system();
  const text::Message question{.role = "user", .content = std::string(text)};
  messages.push_back(question);
  if (both_) {
    console_.note("base:");
    stream(request(messages, 0.0));
    if (console_.interrupted()) return;
    console_.note(fmt::format("adapter (strength {}):", settings_.adapter.scale));
  }
  const bool adapted = both_ || adapter_on_;
  const lm::Completion completion = stream(request(messages, adapted ? settings_.adapter.scale : 0.0));
  history_.push_back(question);
  history_.push_back({.role = "assistant", .content = completion.text});
  note_usage(completion);
}

void ChatSession::note_usage(const lm::Completion& completion) {
  const int64_t length = completion.usage.prompt_tokens + completion.usage.completion_tokens;
  std::string end;
  if (completion.reason == lm::FinishReason::kCancelled) end = ", stopped";
  if (completion.reason == lm::FinishReason::kLength) end = ", cut at the limit";
  console_.note(fmt::format("[span {} tokens, context {} of {}, adapter {}{}]", completion.usage.span_tokens,
                            length, model_.info().max_positions, both_ ? "beside base" : adapter_state(),
                            end));
}

void ChatSession::note_span() {
  text::Messages messages = {{.role = "system", .content = settings_.system},
                             {.role = "user", .content = "?"}};
  lm::Prompt prompt;
  prompt.messages = std::move(messages);
  int64_t span_tokens = 0;
  for (const TokenSpan& span : model_.tokenize(prompt, settings_.adapter).system_spans)
    span_tokens += span.length();
  console_.note(fmt::format("System message: a span of {} tokens.", span_tokens));
}

}  // namespace calyrex::cli
