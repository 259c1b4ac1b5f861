#include "calyrex/kernels/cpu_target.h"

#include <cstdlib>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"

namespace calyrex::kernels {
namespace {

using testing::HasSubstr;

TEST(CpuTargetTest, ScalarIsAlwaysThere) {
  EXPECT_EQ(supported_cpu_targets().back(), "scalar");
  set_cpu_target("scalar");
  EXPECT_EQ(cpu_target(), "scalar");
  set_cpu_target("");
  EXPECT_EQ(cpu_target(), supported_cpu_targets().front());
}

TEST(CpuTargetTest, UnknownNameIsRefusedWithTheChoices) {
  try {
    set_cpu_target("avx3");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("unknown CPU target \"avx3\": take one of"));
    EXPECT_THAT(error.what(), HasSubstr("scalar"));
  }
}

/// Exits with 0 and the target's name, or with 1 and the error, as a fresh process with the variable set
/// would.
[[noreturn]] void report_target(const char* value) {
  setenv(kCpuTargetVariable, value, 1);
  try {
    fmt::print(stderr, "target {}", cpu_target());
    std::exit(0);
  } catch (const Error& error) {
    fmt::print(stderr, "{}: {}", error_code_name(error.code()), error.what());
    std::exit(1);
  }
}

TEST(CpuTargetDeathTest, EnvironmentForcesTheTarget) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a new process, that has not read the variable yet
  EXPECT_EXIT(report_target("scalar"), testing::ExitedWithCode(0), "target scalar");
  EXPECT_EXIT(report_target(""), testing::ExitedWithCode(0), "target " + supported_cpu_targets().front());
  EXPECT_EXIT(report_target("sse9"), testing::ExitedWithCode(1),
              "invalid_argument: CALYREX_CPU_TARGET: unknown CPU target \"sse9\"");
}

}  // namespace
}  // namespace calyrex::kernels
