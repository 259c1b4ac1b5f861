#include "calyrex/cli/terminal.h"

#include <cstdlib>
#include <string_view>

#include <unistd.h>

namespace calyrex::cli {

text::Colour output_colour() {
  const char* refused = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool plain = (refused != nullptr && *refused != '\0') ||
                     (terminal != nullptr && std::string_view(terminal) == "dumb") ||
                     isatty(STDOUT_FILENO) == 0;
  return plain ? text::Colour::kPlain : text::Colour::kAnsi;
}

}  // namespace calyrex::cli
