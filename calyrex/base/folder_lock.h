// One process at a time in a folder.
#pragma once

#include <filesystem>
#include <optional>

namespace calyrex {

/// Holds a folder until it is destroyed, or the process ends in whatever way. Movable.
class FolderLock {
 public:
  /// Creates the folder where needed. None when another process (or another lock of this one) holds it.
  /// Throws kIo.
  static std::optional<FolderLock> try_lock(const std::filesystem::path& folder);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

}  // namespace calyrex
