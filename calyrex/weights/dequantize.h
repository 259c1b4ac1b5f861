// Block formats of GGUF (https://github.com/ggml-org/ggml, docs/gguf.md) widened to float32. Every product
// and sum is rounded to float32 in the order of the format's definition, so results equal the Python package
// `gguf` bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "calyrex/weights/tensor.h"

namespace calyrex::weights {

/// True for types that dequantize() accepts: the float types and all block types.
bool is_float_or_block(DType dtype);

/// Widens `count` values (a multiple of block_values) that start at `bytes`, of any alignment. The type must
/// be one that is_float_or_block() accepts.
void dequantize(DType dtype, const std::byte* bytes, int64_t count, float* out);

}  // namespace calyrex::weights
