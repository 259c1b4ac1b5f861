// The program: parses the command line, runs one command, and turns what it throws into one line and an exit
// code.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include "calyrex/base/error.h"
#include "calyrex/base/fields.h"
#include "calyrex/base/json.h"
#include "calyrex/base/log.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/torch_part.h"

namespace calyrex::cli {
namespace {

constexpr const char* kVersion = "calyrex " CALYREX_VERSION;

/// Commands that can finish something first (training, chat) install their own handlers over this one.
extern "C" void exit_interrupted(int) { ::_exit(exit_code(ErrorCode::kCancelled)); }

void exit_on_interrupt() {
  struct sigaction action = {};
  action.sa_handler = exit_interrupted;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
}

/// The command named last on the command line, and its full name.
std::pair<const CLI::App*, std::string> innermost(const CLI::App& app) {
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  return {command, name};
}

/// What is wrong with a word that stands where a command belongs; nothing when there is none.
std::optional<std::string> unknown_command(const CLI::App& app, const std::vector<std::string>& words) {
  const auto [command, name] = innermost(app);
  std::vector<std::string> known;
  for (const CLI::App* sub : command->get_subcommands({})) known.push_back(sub->get_name());
  const auto own = std::find(words.begin(), words.end(), command->get_name());
  const auto rest = own == words.end() ? words.begin() : own + 1;
  const auto unknown =
      std::find_if(rest, words.end(), [](const std::string& word) { return !word.starts_with('-'); });
  if (known.empty() || unknown == words.end()) return std::nullopt;
  const std::string nearest = nearest_word(*unknown, known);
  return fmt::format("there is no command '{} {}'{}", name, *unknown,
                     nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

void print_version(bool verbose) {
  fmt::print("{}\n", kVersion);
  if (verbose) fmt::print("{}", to_json_text(torch_part().describe()));
}

/// Everything that was printed must have reached its destination, or the exit code would lie.
void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fail(ErrorCode::kIo, "writing standard output: {}", std::strerror(errno));
  }
}

int run_program(int argc, char** argv) {
  CLI::App app("Trains and runs system-prompt anchoring adapters on frozen language models.", "calyrex");
  app.require_subcommand(0, 1);
  app.fallthrough();
  bool version = false;
  bool verbose = false;
  app.add_flag("--version", version, "Print the version and exit (with --verbose: the torch part's too)");
  app.add_flag("--verbose", verbose, "Log more, to stderr");
  Run run;
  add_commands(app, run);
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    if (const auto unknown = unknown_command(app, words)) fail(ErrorCode::kInvalidArgument, "{}", *unknown);
    app.exit(help);
    flush_output();
    return 0;
  } catch (const CLI::ParseError& error) {
    if (const auto unknown = unknown_command(app, words)) fail(ErrorCode::kInvalidArgument, "{}", *unknown);
    fail(ErrorCode::kInvalidArgument, "{} ('{} --help' shows the usage)", error.what(),
         innermost(app).second);
  }
  if (verbose) set_log_level(LogLevel::kDebug);
  if (version) {
    print_version(verbose);
  } else if (run) {
    run();
  } else {
    fail(ErrorCode::kInvalidArgument, "no command given ('calyrex --help' lists them)");
  }
  flush_output();
  return 0;
}

/// One line, whatever a template or a file name put into the message. Never throws: standard error may be
/// closed or full.
int report(std::string_view message, int code) {
  std::string line = fmt::format("error: {}", message);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, ' ');
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
  return code;
}

/// A file must not be opened as one of the three standard descriptors, or messages would be written into it.
/// What was closed stays closed for standard output: it is opened for reading, so that writing fails.
void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    if (::open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

}  // namespace
}  // namespace calyrex::cli

int main(int argc, char** argv) {
  using calyrex::ErrorCode;
  calyrex::cli::occupy_standard_descriptors();
  calyrex::cli::exit_on_interrupt();
  try {
    return calyrex::cli::run_program(argc, argv);
  } catch (const calyrex::Error& error) {
    return calyrex::cli::report(error.what(), calyrex::exit_code(error.code()));
  } catch (const std::bad_alloc&) {
    return calyrex::cli::report("out of memory", calyrex::exit_code(ErrorCode::kOutOfMemory));
  } catch (const std::system_error& error) {  // fmt's, when a stream cannot be written
    return calyrex::cli::report(error.what(), calyrex::exit_code(ErrorCode::kIo));
  } catch (const std::exception& error) {
    return calyrex::cli::report(fmt::format("internal error: {}; please report this", error.what()),
                                calyrex::exit_code(ErrorCode::kInternal));
  }
}
