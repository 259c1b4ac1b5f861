// One process at a time in a folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace calyrex {

/// Holds a folder until it is destroyed, or the process ends in whatever way. Movable.
class FolderLock {
 public:
  /// Creates the folder where needed. None when another process (or another lock of this one) holds it.
  /// Throws kIo.
  static std::optional<FolderLock> try_lock(const std::filesystem::path& folder);
  /// The same for an output, where none is an error: kResourceExhausted, "another process DOING FOLDER; wait
  /// for it or choose another output".
  static FolderLock lock_output(const std::filesystem::path& folder, std::string_view doing);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

}  // namespace calyrex
