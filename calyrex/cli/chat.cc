// calyrex chat: a conversation at the terminal, or over a pipe.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <unistd.h>

#include "calyrex/base/error.h"
#include "calyrex/cli/chat_session.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/interrupts.h"
#include "calyrex/cli/model_flags.h"

namespace calyrex::cli {
namespace {

struct ChatFlags {
  ModelFlags model;
  GenerationFlags generation;
  std::string system;
};

/// Lines of standard input by plain reads, so that Ctrl-C gets through.
class LineReader {
 public:
  static constexpr size_t kMaxLineBytes = size_t{1} << 20;

  /// The next line without its end; nothing at the end of input. Interrupted, and in place of a line that is
  /// longer than kMaxLineBytes (a note says so): an empty line.
  std::optional<std::string> next() {
    while (true) {
      const size_t end = buffer_.find('\n');
      if (end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        if (std::exchange(too_long_, false)) {
          fmt::print(stderr, "error: a message may have {} bytes; this one was not sent\n", kMaxLineBytes);
          return std::string();
        }
        if (line.ends_with('\r')) line.pop_back();
        return line;
      }
      char chunk[4096];
      const ssize_t count = ::read(STDIN_FILENO, chunk, sizeof chunk);
      if (count < 0 && errno == EINTR) {
        buffer_.clear();
        return std::string();
      }
      if (count < 0) fail(ErrorCode::kIo, "reading standard input failed");
      if (count == 0) {
        if (buffer_.empty() && !too_long_) return std::nullopt;
        buffer_ += '\n';
        continue;
      }
      buffer_.append(chunk, static_cast<size_t>(count));
      if (buffer_.size() > kMaxLineBytes && buffer_.find('\n') == std::string::npos) {
        too_long_ = true;
        buffer_.clear();
      }
    }
  }

 private:
  std::string buffer_;
  bool too_long_ = false;  // of the line that is being read
};

ChatConsole make_console() {
  return {.answer =
              [](std::string_view text) {
                std::fwrite(text.data(), 1, text.size(), stdout);
                std::fflush(stdout);
              },
          .note = [](std::string_view text) { fmt::print(stderr, "{}\n", text); },
          .interrupted = interrupted};
}

void run_chat(const ChatFlags& flags) {
  const OpenedModel opened = open_model(flags.model);
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  if (terminal) fmt::print(stderr, "{} - /help lists the commands\n", opened.model->info().name);
  ChatSession session(*opened.model,
                      {.system = flags.system,
                       .adapter = opened.adapter,
                       .sampling = flags.generation.sampling,
                       .max_new_tokens = flags.generation.max_new_tokens},
                      make_console());
  catch_interrupts({SIGINT});
  LineReader reader;
  while (true) {
    if (terminal) fmt::print(stderr, "> ");
    const std::optional<std::string> line = reader.next();
    if (!line) break;
    if (interrupted()) fmt::print(stderr, "\n(Ctrl-C again leaves)\n");
    // At an empty prompt the count stays, so that the next Ctrl-C leaves.
    if (!line->empty()) forget_interrupt();
    if (session.handle(*line) == ChatSession::Next::kQuit) break;
    if (!line->empty()) forget_interrupt();
  }
}

}  // namespace

void add_chat_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("chat", "Talk to a model, with and without its adapter");
  auto flags = std::make_shared<ChatFlags>();
  add_model_flags(*command, flags->model);
  command->add_option("--system", flags->system, "System message");
  add_generation_flags(*command, flags->generation);
  command->callback([flags, &run] { run = [flags] { run_chat(*flags); }; });
}

}  // namespace calyrex::cli
