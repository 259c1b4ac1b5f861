// Tensors of a backbone onto the device, dequantised and joined.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/weights/model_source.h"

namespace calyrex::model {

/// Reads tensors by Hugging Face name. Missing names are a bug of ours: the source has been checked.
class WeightLoader {
 public:
  WeightLoader(const weights::ModelSource& source, at::ScalarType compute_dtype, at::Device device)
      : source_(source), compute_dtype_(compute_dtype), device_(device) {}

  /// Matrices of equal width, one below the other, in the compute dtype.
  at::Tensor matrix(const std::vector<std::string>& names) const;
  /// Vectors one after the other, float32.
  at::Tensor vector(const std::vector<std::string>& names) const;

 private:
  const weights::TensorView& view(const std::string& name) const;

  const weights::ModelSource& source_;
  at::ScalarType compute_dtype_;
  at::Device device_;
};

/// A tensor of a file as float32 on the CPU.
at::Tensor read_float(const weights::TensorView& view);

}  // namespace calyrex::model
