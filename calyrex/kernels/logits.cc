#include "calyrex/kernels/logits.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "calyrex/kernels/logits.cc"
#include <hwy/foreach_target.h>

#include "calyrex/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calyrex::kernels::HWY_NAMESPACE {

float highest_of(const float* values, int64_t count) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  FloatVec top = hn::Set(d, -std::numeric_limits<float>::infinity());
  int64_t at = 0;
  for (; at + lanes <= count; at += lanes) top = hn::Max(top, hn::LoadU(d, values + at));
  float best = hn::GetLane(hn::MaxOfLanes(d, top));
  for (; at < count; ++at) best = values[at] > best ? values[at] : best;
  return best;
}

float sum_of_exp(const float* values, int64_t count, float minus) {
  const FloatTag d;
  const FloatVec offset = hn::Set(d, minus);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  FloatVec sum = hn::Zero(d);
  int64_t at = 0;
  for (; at + lanes <= count; at += lanes) {
    sum = hn::Add(sum, exp_or_nan(d, hn::Sub(hn::LoadU(d, values + at), offset)));
  }
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; at < count; ++at) total += std::exp(values[at] - minus);
  return total;
}

}  // namespace calyrex::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calyrex::kernels {
namespace {

HWY_EXPORT(highest_of);
HWY_EXPORT(sum_of_exp);

/// Logits whose exponentials are summed in float32 before the sum goes on in double.
constexpr int64_t kChunk = 1024;

}  // namespace

LogitsSummary summarize_logits(const float* logits, int64_t count) {
  const float highest = CALYREX_KERNELS_DISPATCH(highest_of)(logits, count);
  LogitsSummary summary;
  for (int64_t n = 0; n < count; ++n) {
    if (logits[n] == highest) {
      summary.best = static_cast<int32_t>(n);
      break;
    }
  }
  const auto sum_chunk = CALYREX_KERNELS_DISPATCH(sum_of_exp);
  double total = 0.0;
  for (int64_t at = 0; at < count; at += kChunk) {
    total += double{sum_chunk(logits + at, count - at < kChunk ? count - at : kChunk, highest)};
  }
  summary.log_sum_exp = double{highest} + std::log(total);
  return summary;
}

}  // namespace calyrex::kernels
#endif  // HWY_ONCE
