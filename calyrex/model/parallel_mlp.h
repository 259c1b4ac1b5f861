// ParallelMLP: extra late capacity without a route to the span, the paper's baseline (PAPER, "Baselines").
#pragma once

#include <map>

#include "calyrex/model/adapter.h"
#include "calyrex/model/mlp.h"

namespace calyrex::model {

class ParallelMlpAdapter final : public Adapter {
 public:
  ParallelMlpAdapter(weights::AdapterConfig config, std::map<int64_t, GatedMlp> blocks,
                     std::vector<AdapterParameter> parameters);

  bool reads_layer_input(int64_t layer) const override;
  at::Tensor after_layer(int64_t layer, const at::Tensor& layer_input, at::Tensor hidden,
                         const AdapterGroup& group) const override;

 private:
  std::map<int64_t, GatedMlp> blocks_;
};

}  // namespace calyrex::model
