// Cross-entropy fused with the output head: logits exist for one chunk of label tokens at a time.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "calyrex/model/decoder.h"

namespace calyrex::train {

/// factor * sum over rows of -log softmax(logits(normed))[target], as a float32 scalar. `normed` [rows,
/// hidden_size] in the compute dtype, `targets` [rows] int64. Under autograd the gradient by `normed` is
/// computed chunk by chunk in the forward pass and kept, and so is that by the head where the head is
/// trained.
at::Tensor head_loss(const model::Decoder& decoder, const at::Tensor& normed, const at::Tensor& targets,
                     double factor);

}  // namespace calyrex::train
