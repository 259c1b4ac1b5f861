// Log-probabilities and cross-entropy over rows of float32 logits.
#pragma once

#include <cstdint>

#include "calyrex/kernels/bfloat16.h"

namespace calyrex::kernels {

/// log_softmax(logits[r, :])[targets[r]] of every row. NaN or +infinity in a row gives NaN.
void log_softmax_pick(
    const float* logits,     // [rows, vocab]
    const int32_t* targets,  // [rows], each in [0, vocab)
    int64_t rows, int64_t vocab,
    float* logprobs,   // [rows]
    uint8_t* greedy);  // [rows] or null: 1 where the target is the argmax (the lower id on a tie)

/// losses[r] = -log_softmax(logits[r, :])[targets[r]], and the gradient by the logits,
/// grad_logits[r, :] = (softmax(logits[r, :]) - onehot(targets[r])) * factor.
void cross_entropy(const float* logits, const int32_t* targets, int64_t rows, int64_t vocab, float factor,
                   float* losses,        // [rows]
                   float* grad_logits);  // [rows, vocab], may be logits
void cross_entropy(const float* logits, const int32_t* targets, int64_t rows, int64_t vocab, float factor,
                   float* losses, BFloat16* grad_logits);

}  // namespace calyrex::kernels
