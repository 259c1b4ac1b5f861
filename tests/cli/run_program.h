// Runs the real program and collects what it says.
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace calyrex::test {

struct ProgramResult {
  int exit_code = -1;
  std::string output;
  std::string errors;
};

/// A folder of the test's own, removed with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "calyrex-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// `arguments` as a shell would split them; `input` becomes standard input.
inline ProgramResult run_program(const std::string& program, const std::string& arguments,
                                 const std::string& input = "") {
  const TemporaryFolder folder;
  const std::string in = folder.write("in", input);
  const std::string out = (folder.path() / "out").string(), err = (folder.path() / "err").string();
  const int status =
      std::system((program + " " + arguments + " < " + in + " > " + out + " 2> " + err).c_str());
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .output = read_text(out),
          .errors = read_text(err)};
}

/// The program on its way, with a pipe for its standard input; ended at the latest by the destructor.
class RunningProgram {
 public:
  RunningProgram(const std::string& program, const std::vector<std::string>& arguments) {
    int ends[2] = {-1, -1};
    if (::pipe(ends) != 0) return;
    std::vector<char*> words = {const_cast<char*>(program.c_str())};
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    child_ = ::fork();
    if (child_ == 0) {
      const int nowhere = ::open("/dev/null", O_WRONLY);
      ::dup2(ends[0], STDIN_FILENO);
      ::dup2(nowhere, STDOUT_FILENO);
      ::dup2(nowhere, STDERR_FILENO);
      ::close(ends[1]);
      ::execv(program.c_str(), words.data());
      ::_exit(99);
    }
    ::close(ends[0]);
    input_ = ends[1];
  }
  ~RunningProgram() {
    if (child_ > 0) signal_and_wait(SIGKILL);
    ::close(input_);
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  void write(const std::string& text) const {
    if (::write(input_, text.data(), text.size()) < 0) std::perror("write");
  }
  void signal(int number) const { ::kill(child_, number); }
  /// Exit code, or -1 when the signal itself ended it.
  int signal_and_wait(int number) const {
    signal(number);
    int status = 0;
    ::waitpid(std::exchange(child_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  mutable pid_t child_ = -1;
  int input_ = -1;
};

}  // namespace calyrex::test
