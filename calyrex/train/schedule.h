// Learning rate over the steps of a run.
#pragma once

#include <cstdint>

#include "calyrex/train/config.h"

namespace calyrex::train {

struct Schedule {
  ScheduleKind kind = ScheduleKind::kCosine;
  int64_t total_steps = 1;
  int64_t warmup_steps = 0;

  /// warmup_ratio of the steps, rounded up.
  static Schedule make(ScheduleKind kind, double warmup_ratio, int64_t total_steps);

  /// Share of the peak in the given step, counted from 0. Rises linearly over the warm-up, whose last step
  /// has the whole peak; then constant, or falling to 0 at `total_steps`.
  double factor(int64_t step) const;
};

}  // namespace calyrex::train
