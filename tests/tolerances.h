// Every numerical tolerance of the tests, with its reason.
#pragma once

namespace calyrex::tolerance {

// Kernels against double precision, relative to the largest magnitude of the compared row. Float32 has 2^-24
// = 6e-8 a rounding; sums of up to a few thousand terms in several lanes stay below 32 of those.
inline constexpr double kFloat32Kernel = 2e-6;
// One rounding to bfloat16 is 2^-9 = 0.00195 of the value; a neighbour of a tie may round the other way.
inline constexpr double kBFloat16Rounding = 0.004;

// Float32 tensor operations against the same formula in another order of summation, relative to the largest
// value.
inline constexpr double kFloat32Op = 5e-5;
// The same with bfloat16 operands or results: one rounding of each operand and of the result.
inline constexpr double kBFloat16Op = 0.02;
// Hidden states, losses and gradients of whole tiny networks in float32 against PyTorch, relative to the
// largest value.
inline constexpr double kFloat32Network = 1e-4;

// Optimiser steps in float32 against PyTorch, relative. Rounding grows from step to step, the more in the
// norm, where small gradients divide small moments.
inline constexpr double kTrainingLoss = 1e-3;
inline constexpr double kTrainingGradNorm = 5e-3;

}  // namespace calyrex::tolerance
