#include "calyrex/kernels/adamw.h"

#include <cmath>

#include "calyrex/kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "calyrex/kernels/adamw.cc"
#include <hwy/foreach_target.h>

#include "calyrex/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calyrex::kernels::HWY_NAMESPACE {

void adamw_range(const AdamWArgs& args, int64_t begin, int64_t end) {
  const FloatTag d;
  const auto constant = [&](double value) HWY_ATTR { return hn::Set(d, static_cast<float>(value)); };
  const FloatVec grad_scale = constant(args.grad_scale);
  const FloatVec keep = constant(1.0 - args.lr * args.weight_decay);
  const FloatVec mean_rate = constant(1.0 - args.beta1);
  const FloatVec square_keep = constant(args.beta2);
  const FloatVec square_rate = constant(1.0 - args.beta2);
  const FloatVec eps = constant(args.eps);
  const auto step = static_cast<double>(args.step);
  const FloatVec negative_step = constant(-args.lr / (1.0 - std::pow(args.beta1, step)));
  const FloatVec root_scale = constant(1.0 / std::sqrt(1.0 - std::pow(args.beta2, step)));
  for_each_vector(d, end - begin, [&](int64_t offset, auto extent) HWY_ATTR {
    const int64_t at = begin + offset;
    const FloatVec g = hn::Mul(load(d, args.grad + at, extent), grad_scale);
    const FloatVec old_m = load(d, args.m + at, extent);
    const FloatVec m = hn::MulAdd(hn::Sub(g, old_m), mean_rate, old_m);
    const FloatVec v =
        hn::MulAdd(hn::Mul(g, g), square_rate, hn::Mul(load(d, args.v + at, extent), square_keep));
    const FloatVec denominator = hn::MulAdd(hn::Sqrt(v), root_scale, eps);
    const FloatVec decayed = hn::Mul(load(d, args.param + at, extent), keep);
    const FloatVec param = hn::MulAdd(hn::Div(m, denominator), negative_step, decayed);
    store(d, m, args.m + at, extent);
    store(d, v, args.v + at, extent);
    store(d, param, args.param + at, extent);
    if (args.param_bf16 != nullptr) store(d, param, args.param_bf16 + at, extent);
  });
}

}  // namespace calyrex::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calyrex::kernels {
namespace {
HWY_EXPORT(adamw_range);
}  // namespace

void adamw(const AdamWArgs& args) {
  constexpr int64_t kGrain = 4096;
  const auto kernel = CALYREX_KERNELS_DISPATCH(adamw_range);
  parallel_for((args.count + kGrain - 1) / kGrain, 4 * kGrain, [&](int64_t begin, int64_t end) {
    kernel(args, begin * kGrain, std::min(end * kGrain, args.count));
  });
}

}  // namespace calyrex::kernels
#endif  // HWY_ONCE
