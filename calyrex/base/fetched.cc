#include "calyrex/base/fetched.h"

#include <cstdlib>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"

namespace calyrex {
namespace fs = std::filesystem;
namespace {

/// Folder of the running program; empty when the system does not say.
fs::path program_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : program.parent_path();
}

}  // namespace

fs::path find_fetched(const std::string& relative, const char* variable, std::string_view what) {
  if (const char* path = std::getenv(variable); path != nullptr && *path != '\0') {
    if (!path_exists(path)) fail(ErrorCode::kNotFound, "{} {} ({}) does not exist", what, path, variable);
    return path;
  }
  const fs::path wanted = fs::path(".deps") / relative;
  std::error_code ignored;
  for (fs::path folder : {program_folder(), fs::current_path(ignored)}) {
    for (; folder.has_relative_path(); folder = folder.parent_path()) {
      if (path_exists(folder / wanted)) return folder / wanted;
    }
  }
  fail(ErrorCode::kNotFound, "{} ({}) is not there; ./run build fetches it, or set {}", what, wanted.string(),
       variable);
}

}  // namespace calyrex
