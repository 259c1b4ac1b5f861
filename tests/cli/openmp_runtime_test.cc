// One OpenMP runtime in the process: the one that libtorch brings. Two of them would keep two thread pools
// that fight for the cores.
#include <filesystem>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

namespace calyrex {
namespace {

/// Paths of the loaded objects whose file name starts with `prefix`.
std::vector<std::filesystem::path> loaded_objects(const std::string& prefix) {
  struct Search {
    std::string prefix;
    std::vector<std::filesystem::path> found;
  } search{prefix, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& search = *static_cast<Search*>(data);
        const std::filesystem::path path = info->dlpi_name;
        if (path.filename().string().starts_with(search.prefix)) search.found.push_back(path);
        return 0;
      },
      &search);
  return search.found;
}

TEST(OpenMpRuntime, TorchPartBringsTheOnlyOne) {
  ASSERT_TRUE(loaded_objects("libgomp").empty()) << "the test itself must not bring one";
  // RTLD_NOW also shows that libtorch's runtime has every OpenMP function that our code calls.
  ASSERT_NE(dlopen(CALYREX_TORCH_MODULE, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
  const auto runtimes = loaded_objects("libgomp");
  const auto torch = loaded_objects("libtorch_cpu");
  ASSERT_EQ(runtimes.size(), 1u);
  ASSERT_EQ(torch.size(), 1u);
  EXPECT_EQ(std::filesystem::canonical(runtimes[0]).parent_path(),
            std::filesystem::canonical(torch[0]).parent_path());
  EXPECT_TRUE(loaded_objects("libomp").empty());
  EXPECT_TRUE(loaded_objects("libiomp").empty());
}

/// Names of the shared libraries that the ELF file at `path` asks for, directly or not, as the loader sees
/// them.
std::string needed_libraries(const std::string& path) {
  FILE* pipe = popen(("LD_TRACE_LOADED_OBJECTS=1 " + path).c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  char buffer[4096];
  while (size_t size = fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, size);
  pclose(pipe);
  return text;
}

TEST(OpenMpRuntime, ProgramStartsWithoutLibtorchAndWithoutOpenMp) {
  const std::string libraries = needed_libraries(CALYREX_PROGRAM);
  ASSERT_NE(libraries.find("libc.so"), std::string::npos) << libraries;
  for (const char* name : {"libgomp", "libtorch", "libc10"}) {
    EXPECT_EQ(libraries.find(name), std::string::npos) << libraries;
  }
}

}  // namespace
}  // namespace calyrex
