// Elementwise kernels: conversion, residual addition, SwiGLU.
#pragma once

#include <cstdint>

#include "calyrex/kernels/bfloat16.h"

namespace calyrex::kernels {

/// bfloat16 <-> float32; to bfloat16 rounds to nearest even.
void convert(const float* from, int64_t count, BFloat16* to);
void convert(const BFloat16* from, int64_t count, float* to);

/// x += scale * delta.
void add_scaled(float* x, const float* delta, float scale, int64_t count);
void add_scaled(float* x, const BFloat16* delta, float scale, int64_t count);

/// out = silu(gate) * up, computed in float32 and rounded once. With one row, out may be gate_up.
void swiglu(const float* gate_up,  // [rows, 2 * width], gate first
            int64_t rows, int64_t width,
            float* out);  // [rows, width]
void swiglu(const BFloat16* gate_up, int64_t rows, int64_t width, BFloat16* out);

/// Writes the gradient of swiglu() to grad_gate_up [rows, 2 * width].
void swiglu_backward(const float* gate_up, const float* grad_out, int64_t rows, int64_t width,
                     float* grad_gate_up);
void swiglu_backward(const BFloat16* gate_up, const BFloat16* grad_out, int64_t rows, int64_t width,
                     BFloat16* grad_gate_up);

/// Sum of the squares, summed in double precision; the same bits for any number of threads.
double sum_of_squares(const float* values, int64_t count);

}  // namespace calyrex::kernels
