#include "calyrex/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace calyrex::train {

Schedule Schedule::make(ScheduleKind kind, double warmup_ratio, int64_t total_steps) {
  // 0.03 * 100 is a little above 3 in binary.
  constexpr double kRounding = 1e-9;
  const double warmup = std::ceil(warmup_ratio * static_cast<double>(total_steps) - kRounding);
  return {.kind = kind, .total_steps = total_steps, .warmup_steps = static_cast<int64_t>(warmup)};
}

double Schedule::factor(int64_t step) const {
  if (step < warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  const auto decay_steps = static_cast<double>(std::max<int64_t>(1, total_steps - warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(step - warmup_steps) / decay_steps);
  switch (kind) {
    case ScheduleKind::kCosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    case ScheduleKind::kLinear:
      return 1.0 - progress;
    case ScheduleKind::kConstant:
      return 1.0;
  }
  return 1.0;
}

}  // namespace calyrex::train
