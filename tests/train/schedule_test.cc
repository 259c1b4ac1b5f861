#include "calyrex/train/schedule.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

namespace calyrex::train {
namespace {

TEST(Schedule, WarmUpRisesLinearlyToThePeak) {
  const Schedule schedule = Schedule::make(ScheduleKind::kConstant, 0.1, 40);
  EXPECT_EQ(schedule.warmup_steps, 4);
  EXPECT_DOUBLE_EQ(schedule.factor(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.factor(3), 1.0);
  EXPECT_DOUBLE_EQ(schedule.factor(39), 1.0);
}

TEST(Schedule, TheShareIsRoundedUpWithoutBinaryNoise) {
  EXPECT_EQ(Schedule::make(ScheduleKind::kCosine, 0.03, 100).warmup_steps, 3);
  EXPECT_EQ(Schedule::make(ScheduleKind::kCosine, 0.03, 101).warmup_steps, 4);
  EXPECT_EQ(Schedule::make(ScheduleKind::kCosine, 0.03, 1).warmup_steps, 1);
  EXPECT_EQ(Schedule::make(ScheduleKind::kCosine, 0.0, 100).warmup_steps, 0);
}

TEST(Schedule, CosineAndLinearEndAtZero) {
  const Schedule cosine = Schedule::make(ScheduleKind::kCosine, 0.0, 8);
  const Schedule linear = Schedule::make(ScheduleKind::kLinear, 0.0, 8);
  for (int64_t step = 0; step <= 8; ++step) {
    const double progress = static_cast<double>(step) / 8.0;
    EXPECT_NEAR(cosine.factor(step), std::pow(std::cos(progress * std::numbers::pi / 2), 2), 1e-12);
    EXPECT_NEAR(linear.factor(step), 1.0 - progress, 1e-12);
  }
}

TEST(Schedule, AWarmUpOfAllStepsNeverFalls) {
  const Schedule schedule = Schedule::make(ScheduleKind::kLinear, 1.0, 4);
  EXPECT_DOUBLE_EQ(schedule.factor(3), 1.0);
}

}  // namespace
}  // namespace calyrex::train
