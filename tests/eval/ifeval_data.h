// The folder of published benchmark data that some tests read: not part of the repository.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace calyrex::test {

/// CALYREX_EVAL_DATA, else ../shared/data; a test whose file is absent there is skipped.
inline std::filesystem::path eval_data() {
  const char* folder = std::getenv("CALYREX_EVAL_DATA");
  return folder != nullptr ? folder : "../shared/data";
}

}  // namespace calyrex::test

#define CALYREX_NEED_DATA(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << (path) << " is absent"
