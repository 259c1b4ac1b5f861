#include "calyrex/base/folder_lock.h"

#include <utility>

#include <gtest/gtest.h>

#include "tests/weights/test_files.h"

namespace calyrex {
namespace {

TEST(FolderLock, OneAtATime) {
  const test::TempFolder folder;
  const auto path = folder / "a/b";
  {
    std::optional<FolderLock> lock = FolderLock::try_lock(path);
    ASSERT_TRUE(lock);
    EXPECT_FALSE(FolderLock::try_lock(path));
    const FolderLock moved = *std::move(lock);
    lock.reset();
    EXPECT_FALSE(FolderLock::try_lock(path)) << "the one it was moved to still holds it";
    EXPECT_TRUE(FolderLock::try_lock(folder / "a")) << "another folder";
  }
  EXPECT_TRUE(FolderLock::try_lock(path));
}

}  // namespace
}  // namespace calyrex
