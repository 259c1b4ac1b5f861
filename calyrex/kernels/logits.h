// What a sampler wants to know of a whole row of logits.
#pragma once

#include <cstdint>

namespace calyrex::kernels {

struct LogitsSummary {
  int32_t best = 0;  // the highest logit, the lower index on a tie
  double log_sum_exp = 0.0;
};

/// On the calling thread. NaN in the row gives a log_sum_exp of NaN.
LogitsSummary summarize_logits(const float* logits, int64_t count);

}  // namespace calyrex::kernels
