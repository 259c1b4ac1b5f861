// A trained matrix or vector.
#pragma once

#include <ATen/core/Tensor.h>

namespace calyrex::model {

/// The float32 leaf and its copy in the compute dtype (the same tensor where they agree).
struct TrainedTensor {
  at::Tensor leaf;
  at::Tensor compute;

  bool defined() const { return leaf.defined(); }
};

}  // namespace calyrex::model
