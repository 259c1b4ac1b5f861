// Trained tensors from named values, joined where they share a product.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/model/adapter.h"
#include "calyrex/model/trained_tensor.h"

namespace calyrex::model {

/// Gives the float32 values of a named tensor of the file format.
using ValueSource = std::function<at::Tensor(const std::string& name, const std::vector<int64_t>& shape)>;

/// Makes leaves (kTrain) or plain tensors in the compute dtype (kServe) and lists them as parameters.
class ParameterBuilder {
 public:
  /// `config` is resolved: it says which tensors there are.
  ParameterBuilder(const weights::AdapterConfig& config, const ValueSource& source,
                   at::ScalarType compute_dtype, at::Device device, AdapterUse use);

  bool has(const std::string& name) const { return shapes_.contains(name); }
  /// One leaf of these tensors, row by row; undefined when the adapter lacks the first. Vectors stay float32.
  TrainedTensor join(int64_t layer, const std::vector<std::string>& names, AdapterParameter::Part part);

  std::vector<AdapterParameter> take_parameters() { return std::move(parameters_); }

 private:
  const ValueSource& source_;
  at::ScalarType compute_dtype_;
  at::Device device_;
  AdapterUse use_;
  std::map<std::string, std::vector<int64_t>> shapes_;
  std::vector<AdapterParameter> parameters_;
};

}  // namespace calyrex::model
