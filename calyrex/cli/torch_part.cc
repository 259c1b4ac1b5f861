#include "calyrex/cli/torch_part.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <dlfcn.h>

#include "calyrex/base/error.h"

namespace calyrex::cli {
namespace {

constexpr const char* kLibrary = "libcalyrex_torch.so";

/// Settings that libtorch's libraries read once, when they are loaded; what the user set stays.
void choose_environment() {
  // libgomp's default, spinning, makes many small parallel regions tens of times slower beside a busy
  // neighbour. A short spin (measured) trains 5 % faster than none on quiet cores and keeps half the speed
  // beside a busy one.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) ::setenv("GOMP_SPINCOUNT", "2000", /*overwrite=*/0);
  // oneDNN, and libtorch above it, keep compiled products by shape (0.3 MB each); ragged batches make new
  // shapes all the time.
  ::setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256", /*overwrite=*/0);
  ::setenv("LRU_CACHE_CAPACITY", "256", /*overwrite=*/0);
}

TorchPart* load() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path library = program.parent_path() / kLibrary;
  if (error || !std::filesystem::exists(library, error)) {
    fail(ErrorCode::kNotFound,
         "{} is missing beside the program, so commands that run a model do not work; './run build' makes it",
         kLibrary);
  }
  choose_environment();
  // Symbols that the program has as well resolve to the program's: one log level, one set of interrupt flags.
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail(ErrorCode::kNotFound, "loading {}: {}", kLibrary, ::dlerror());
  using Entry = TorchPart* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(handle, "calyrex_torch_part"));
  if (entry == nullptr) {
    fail(ErrorCode::kCorruptData, "{} is not of this build (no entry point); './run build' makes it anew",
         kLibrary);
  }
  return entry();
}

}  // namespace

TorchPart& torch_part() {
  static TorchPart* const part = load();
  return *part;
}

}  // namespace calyrex::cli
