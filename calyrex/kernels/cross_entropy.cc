#include "calyrex/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "calyrex/kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "calyrex/kernels/cross_entropy.cc"
#include <hwy/foreach_target.h>

#include "calyrex/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calyrex::kernels::HWY_NAMESPACE {

HWY_INLINE float row_maximum(FloatTag d, const float* row, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  FloatVec best = hn::Set(d, -std::numeric_limits<float>::infinity());
  int64_t at = 0;
  for (; at + lanes <= count; at += lanes) best = hn::Max(best, hn::LoadU(d, row + at));
  float maximum = hn::GetLane(hn::MaxOfLanes(d, best));
  for (; at < count; ++at) maximum = row[at] > maximum ? row[at] : maximum;
  return maximum;
}

/// Sum of e^(row - maximum); NaN when the row holds NaN or +infinity. Short float32 sums added in double, so
/// that a large vocabulary costs no digits.
HWY_INLINE double exp_sum(FloatTag d, const float* row, int64_t count, float maximum) {
  constexpr int64_t kShortSum = 2048;
  const FloatVec top = hn::Set(d, maximum);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = count / lanes * lanes;
  double total = 0.0;
  for (int64_t begin = 0; begin < whole; begin += kShortSum) {
    total += sum_over(
        d, std::min(kShortSum, whole - begin), [&](int64_t at, auto extent, FloatVec so_far) HWY_ATTR {
          return hn::Add(so_far, exp_or_nan(d, hn::Sub(load(d, row + begin + at, extent), top)));
        });
  }
  for (int64_t at = whole; at < count; ++at) total += std::exp(row[at] - maximum);
  return total;
}

void pick_rows(const float* logits, const int32_t* targets, int64_t rows, int64_t vocab, float* logprobs,
               uint8_t* greedy) {
  const FloatTag d;
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = logits + r * vocab;
    const float maximum = row_maximum(d, row, vocab);
    const float target = row[targets[r]];
    logprobs[r] = static_cast<float>(target - maximum - std::log(exp_sum(d, row, vocab, maximum)));
    if (greedy == nullptr) continue;
    bool likeliest = target == maximum;
    for (int64_t at = 0; likeliest && at < targets[r]; ++at) likeliest = row[at] < maximum;
    greedy[r] = likeliest ? 1 : 0;
  }
}

template <typename Grad>
HWY_INLINE void cross_entropy_rows(const float* logits, const int32_t* targets, int64_t rows, int64_t vocab,
                                   float factor, float* losses, Grad* grad_logits) {
  const FloatTag d;
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = logits + r * vocab;
    Grad* grad_row = grad_logits + r * vocab;
    const float maximum = row_maximum(d, row, vocab);
    const double sum = exp_sum(d, row, vocab, maximum);
    const float target = row[targets[r]];
    losses[r] = static_cast<float>(std::log(sum) - (target - maximum));
    const FloatVec top = hn::Set(d, maximum);
    const FloatVec scale = hn::Set(d, static_cast<float>(factor / sum));
    for_each_vector(d, vocab, [&](int64_t at, auto extent) HWY_ATTR {
      const FloatVec e = exp_or_nan(d, hn::Sub(load(d, row + at, extent), top));
      store(d, hn::Mul(e, scale), grad_row + at, extent);
    });
    const auto at_target = static_cast<float>((std::exp(target - maximum) / sum - 1.0) * factor);
    round_to(at_target, grad_row[targets[r]]);
  }
}

void cross_entropy_f32(const float* logits, const int32_t* targets, int64_t rows, int64_t vocab, float factor,
                       float* losses, float* grad_logits) {
  cross_entropy_rows(logits, targets, rows, vocab, factor, losses, grad_logits);
}
void cross_entropy_bf16(const float* logits, const int32_t* targets, int64_t rows, int64_t vocab,
                        float factor, float* losses, BFloat16* grad_logits) {
  cross_entropy_rows(logits, targets, rows, vocab, factor, losses, grad_logits);
}

}  // namespace calyrex::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calyrex::kernels {
namespace {

HWY_EXPORT(pick_rows);
HWY_EXPORT(cross_entropy_f32);
HWY_EXPORT(cross_entropy_bf16);

template <typename Grad, typename Kernel>
void run_cross_entropy(Kernel kernel, const float* logits, const int32_t* targets, int64_t rows,
                       int64_t vocab, float factor, float* losses, Grad* grad_logits) {
  parallel_for(rows, 8 * vocab, [&](int64_t begin, int64_t end) {
    kernel(logits + begin * vocab, targets + begin, end - begin, vocab, factor, losses + begin,
           grad_logits + begin * vocab);
  });
}

}  // namespace

void log_softmax_pick(const float* logits, const int32_t* targets, int64_t rows, int64_t vocab,
                      float* logprobs, uint8_t* greedy) {
  const auto kernel = CALYREX_KERNELS_DISPATCH(pick_rows);
  parallel_for(rows, 8 * vocab, [&](int64_t begin, int64_t end) {
    kernel(logits + begin * vocab, targets + begin, end - begin, vocab, logprobs + begin,
           greedy == nullptr ? nullptr : greedy + begin);
  });
}

void cross_entropy(const float* logits, const int32_t* targets, int64_t rows, int64_t vocab, float factor,
                   float* losses, float* grad_logits) {
  run_cross_entropy(CALYREX_KERNELS_DISPATCH(cross_entropy_f32), logits, targets, rows, vocab, factor, losses,
                    grad_logits);
}
void cross_entropy(const float* logits, const int32_t* targets, int64_t rows, int64_t vocab, float factor,
                   float* losses, BFloat16* grad_logits) {
  run_cross_entropy(CALYREX_KERNELS_DISPATCH(cross_entropy_bf16), logits, targets, rows, vocab, factor,
                    losses, grad_logits);
}

}  // namespace calyrex::kernels
#endif  // HWY_ONCE
