// From tensors as they lie in files to matrices for kernels::quant_matmul().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calyrex/kernels/quant_matrix.h"
#include "calyrex/weights/tensor.h"

namespace calyrex::infer {

/// Packs the rows of `parts`, one after the other, as one matrix. Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 keep their
/// values exactly when all parts have the same type; anything else is rounded to 8 bits a block. Runs on all
/// threads.
kernels::QuantMatrix pack_matrix(const std::vector<const weights::TensorView*>& parts,
                                 const std::shared_ptr<kernels::QuantArena>& arena);

/// The parts' values as one float32 vector.
std::vector<float> read_vector(const std::vector<const weights::TensorView*>& parts);

}  // namespace calyrex::infer
