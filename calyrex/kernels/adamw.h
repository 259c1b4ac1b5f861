// The AdamW step on one float32 array (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019).
#pragma once

#include <cstdint>

#include "calyrex/kernels/bfloat16.h"

namespace calyrex::kernels {

/// One step over `count` elements, in the order of torch.optim.AdamW:
///   param -= lr * weight_decay * param;  g = grad * grad_scale
///   m += (1 - beta1) * (g - m);  v = beta2 * v + (1 - beta2) * g^2
///   param -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
struct AdamWArgs {
  float* param = nullptr;
  const float* grad = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  BFloat16* param_bf16 = nullptr;  // when not null, receives the new parameters rounded
  int64_t count = 0;
  int64_t step = 1;  // 1 = the first
  double lr = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double grad_scale = 1.0;  // e.g. the clipping factor
};
void adamw(const AdamWArgs& args);

}  // namespace calyrex::kernels
