// RMSNorm over the float32 residual stream, with the residual addition fused in, and its gradient.
#pragma once

#include <cstdint>

#include "calyrex/kernels/bfloat16.h"

namespace calyrex::kernels {

/// out[r, :] = x[r, :] / sqrt(mean(x[r, :]^2) + eps) * weight, computed in float32.
void rms_norm(const float* x,       // [rows, dim]
              const float* weight,  // [dim]
              float eps, int64_t rows, int64_t dim,
              float* out);  // [rows, dim], may be x
void rms_norm(const float* x, const float* weight, float eps, int64_t rows, int64_t dim, BFloat16* out);

/// x += delta, then out = rms_norm(x).
void add_rms_norm(float* x, const float* delta, const float* weight, float eps, int64_t rows, int64_t dim,
                  float* out);
void add_rms_norm(float* x, const float* delta, const float* weight, float eps, int64_t rows, int64_t dim,
                  BFloat16* out);
void add_rms_norm(float* x, const BFloat16* delta, const float* weight, float eps, int64_t rows, int64_t dim,
                  float* out);
void add_rms_norm(float* x, const BFloat16* delta, const float* weight, float eps, int64_t rows, int64_t dim,
                  BFloat16* out);

/// Adds the gradients of rms_norm() to grad_x [rows, dim] and, unless null, grad_weight [dim]. The sum over
/// rows has the same bits for any number of threads.
void rms_norm_backward(const float* x, const float* weight, float eps, const float* grad_out, int64_t rows,
                       int64_t dim, float* grad_x, float* grad_weight);
void rms_norm_backward(const float* x, const float* weight, float eps, const BFloat16* grad_out, int64_t rows,
                       int64_t dim, float* grad_x, float* grad_weight);

}  // namespace calyrex::kernels
