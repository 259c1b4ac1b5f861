#include "calyrex/model/parallel_mlp.h"

#include <ATen/ATen.h>

#include "calyrex/model/ops.h"

namespace calyrex::model {

ParallelMlpAdapter::ParallelMlpAdapter(weights::AdapterConfig config, std::map<int64_t, GatedMlp> blocks,
                                       std::vector<AdapterParameter> parameters)
    : Adapter(std::move(config)), blocks_(std::move(blocks)) {
  parameters_ = std::move(parameters);
}

bool ParallelMlpAdapter::reads_layer_input(int64_t layer) const {
  return config_.parallel_mlp.input == weights::MlpInput::kParallel && blocks_.contains(layer);
}

at::Tensor ParallelMlpAdapter::after_layer(int64_t layer, const at::Tensor& layer_input, at::Tensor hidden,
                                           const AdapterGroup& group) const {
  const auto found = blocks_.find(layer);
  if (found == blocks_.end()) return hidden;
  const bool anchored = config_.mlp_scope() == weights::MlpScope::kAnchored;
  if (anchored && !group.query_rows.defined()) return hidden;
  const at::Tensor& rows = anchored ? group.query_rows : group.rows;
  const at::Tensor& read = reads_layer_input(layer) ? layer_input : hidden;
  const at::Tensor delta = found->second.forward(gather_rows(read, rows));
  return add_contribution(layer, AdapterParameter::Part::kMlp, std::move(hidden), rows, delta, group);
}

}  // namespace calyrex::model
