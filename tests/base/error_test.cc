#include "calyrex/base/error.h"

#include <gtest/gtest.h>

namespace calyrex {
namespace {

TEST(Error, ContextGoesOutermostFirst) {
  try {
    with_context("loading adapter a", [] {
      with_context("tensor x", [] { fail(ErrorCode::kCorruptData, "expected {}, got {}", 1, 2); });
    });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "loading adapter a: tensor x: expected 1, got 2");
    EXPECT_EQ(error.message(), "expected 1, got 2");
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
  }
}

TEST(Error, WithContextReturnsTheValue) {
  EXPECT_EQ(with_context("adding", [] { return 3; }), 3);
}

TEST(Error, ExitCodesAreTheDocumentedOnes) {
  EXPECT_EQ(exit_code(ErrorCode::kGateFailed), 1);
  EXPECT_EQ(exit_code(ErrorCode::kInvalidArgument), 2);
  EXPECT_EQ(exit_code(ErrorCode::kNotFound), 3);
  EXPECT_EQ(exit_code(ErrorCode::kCorruptData), 4);
  EXPECT_EQ(exit_code(ErrorCode::kUnsupported), 5);
  EXPECT_EQ(exit_code(ErrorCode::kUnavailable), 6);
  EXPECT_EQ(exit_code(ErrorCode::kInternal), 70);
  EXPECT_EQ(exit_code(ErrorCode::kCancelled), 130);
}

TEST(Error, CheckNamesThePlace) {
  try {
    CALYREX_CHECK(1 + 1 == 3, "sum of {}", "ones");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_NE(std::string(error.what()).find("error_test.cc"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("sum of ones"), std::string::npos);
  }
}

}  // namespace
}  // namespace calyrex
