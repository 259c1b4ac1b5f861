// A chat at the terminal, without the terminal: lines in, text out.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "calyrex/lm/language_model.h"

namespace calyrex::cli {

struct ChatSettings {
  std::string system;         // empty = no system message
  lm::AdapterChoice adapter;  // name empty = none was loaded
  lm::Sampling sampling;
  int64_t max_new_tokens = 256;
};

/// Where a session writes, and how it learns that the user wants an answer to stop.
struct ChatConsole {
  std::function<void(std::string_view)> answer;  // pieces of answers
  std::function<void(std::string_view)> note;    // whole lines about them
  std::function<bool()> interrupted;             // polled while an answer is written
};

/// Keeps history, system message and adapter strength; lines that begin with / are commands (/help lists
/// them), and // begins a message with a slash. Errors of a single turn (a context that is full, a template
/// that refuses) are noted and leave the history as it was.
class ChatSession {
 public:
  ChatSession(lm::LanguageModel& model, ChatSettings settings, ChatConsole console);

  enum class Next { kContinue, kQuit };
  Next handle(std::string_view line);

 private:
  Next run_command(std::string_view line);
  void set_system(std::string_view text);
  void set_adapter(std::string_view argument);
  void toggle_both();
  void say(std::string_view text);
  lm::GenerateRequest request(const text::Messages& messages, double scale) const;
  lm::Completion stream(lm::GenerateRequest request);
  text::Messages with_system() const;
  std::string adapter_state() const;
  void note_span();
  void note_usage(const lm::Completion& completion);

  lm::LanguageModel& model_;
  ChatSettings settings_;
  ChatConsole console_;
  text::Messages history_;  // user and assistant messages
  bool adapter_on_ = false;
  bool both_ = false;
};

}  // namespace calyrex::cli
