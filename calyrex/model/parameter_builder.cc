#include "calyrex/model/parameter_builder.h"

#include <ATen/ATen.h>

namespace calyrex::model {

ParameterBuilder::ParameterBuilder(const weights::AdapterConfig& config, const ValueSource& source,
                                   at::ScalarType compute_dtype, at::Device device, AdapterUse use)
    : source_(source), compute_dtype_(compute_dtype), device_(device), use_(use) {
  for (const weights::ExpectedTensor& tensor : weights::expected_adapter_tensors(config)) {
    shapes_.emplace(tensor.name, tensor.shape);
  }
}

TrainedTensor ParameterBuilder::join(int64_t layer, const std::vector<std::string>& names,
                                     AdapterParameter::Part part) {
  if (!has(names.front())) return {};
  std::vector<at::Tensor> values;
  for (const std::string& name : names) values.push_back(source_(name, shapes_.at(name)));
  const at::Tensor whole = (names.size() == 1 ? values.front() : at::cat(values)).to(device_);
  const bool matrix = whole.dim() == 2;
  TrainedTensor tensor;
  if (use_ == AdapterUse::kTrain) {
    tensor.leaf = whole.set_requires_grad(true);
    tensor.compute = matrix ? tensor.leaf.detach().to(compute_dtype_) : tensor.leaf.detach();
  } else {
    tensor.leaf = tensor.compute = matrix ? whole.to(compute_dtype_) : whole;
  }
  int64_t row = 0;
  for (size_t n = 0; n < names.size(); ++n) {
    const int64_t rows = values[n].size(0);
    parameters_.push_back({.name = names[n],
                           .leaf = tensor.leaf,
                           .compute = tensor.compute,
                           .row_begin = row,
                           .row_end = row + rows,
                           .part = part,
                           .layer = layer});
    row += rows;
  }
  return tensor;
}

}  // namespace calyrex::model
