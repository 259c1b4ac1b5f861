// A test with a folder of its own.
#pragma once

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "calyrex/base/file.h"

namespace calyrex::data {

class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    make_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    write_file_atomically(folder_ / name, text);
    return folder_ / name;
  }
  std::filesystem::path folder_;
};

}  // namespace calyrex::data
