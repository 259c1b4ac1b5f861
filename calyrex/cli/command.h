// What every command file is made of: one function that adds its subcommand and says what to run.
#pragma once

#include <functional>

namespace CLI {
class App;
}  // namespace CLI

namespace calyrex::cli {

/// What the parsed command line asks for; run by main after parsing. Throws calyrex::Error.
using Run = std::function<void()>;

}  // namespace calyrex::cli
