#include "calyrex/base/folder_lock.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"

namespace calyrex {

std::optional<FolderLock> FolderLock::try_lock(const std::filesystem::path& folder) {
  make_directories(folder);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail(ErrorCode::kIo, "cannot open {}: {}", folder.string(), std::strerror(errno));
  FolderLock lock(descriptor);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return std::nullopt;
  fail(ErrorCode::kIo, "cannot lock {}: {}", folder.string(), std::strerror(errno));
}

FolderLock FolderLock::lock_output(const std::filesystem::path& folder, std::string_view doing) {
  if (std::optional<FolderLock> held = try_lock(folder)) return std::move(*held);
  fail(ErrorCode::kResourceExhausted, "another process {} {}; wait for it or choose another output", doing,
       folder.string());
}

FolderLock::FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace calyrex
