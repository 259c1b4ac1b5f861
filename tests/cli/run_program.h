// Runs the real program and collects what it says.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

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

}  // namespace calyrex::test
