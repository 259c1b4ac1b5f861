// AdamW over the tensors of an adapter, and what the log needs to know of their gradients.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/base/json.h"
#include "calyrex/model/adapter.h"
#include "calyrex/train/config.h"
#include "calyrex/weights/safetensors.h"

namespace calyrex::train {

/// Euclidean norms over the gradient of an adapter, before clipping. Tensors that no backward pass reached
/// count as 0.
struct GradientNorms {
  double total = 0.0;
  std::map<int64_t, double> blocks;  // by the layer that a block follows
  std::string non_finite;            // first tensor with a gradient that is not finite; empty = none
};
GradientNorms gradient_norms(const model::Adapter& adapter);

/// AdamW (Loshchilov and Hutter, 2019) with torch.optim.AdamW's arithmetic: a tensor that got no gradient is
/// left alone. Norms and biases are not decayed. Holds both moments in float32.
class Optimizer {
 public:
  Optimizer(std::shared_ptr<model::Adapter> adapter, const TrainSettings& settings);

  /// Applies the gradients times `grad_scale` at `lr_factor` of the peak learning rates, to masters and
  /// compute copies, and forgets the gradients.
  void step(double lr_factor, double grad_scale);
  void clear_gradients();

  /// Moments as "m.<tensor>" and "v.<tensor>", viewing this object's memory (copies on other devices).
  model::AdapterTensors export_moments() const;
  /// Steps taken by each tensor.
  Json step_counts() const;
  /// Restores both; kCorruptData naming what is missing or has another shape.
  void restore(const weights::SafetensorsFile& moments, const Json& step_counts);

 private:
  struct Slot {
    at::Tensor leaf;
    at::Tensor compute;  // its copy for products, or the leaf itself
    at::Tensor m, v;     // as the leaf, float32
    double learning_rate = 0.0;
    double weight_decay = 0.0;
    int64_t steps = 0;
    std::vector<size_t> parameters;  // indices of the adapter's parameters that are rows of this leaf
  };
  void update(Slot& slot, double learning_rate, double grad_scale);

  std::shared_ptr<model::Adapter> adapter_;
  TrainSettings settings_;
  std::vector<Slot> slots_;
};

}  // namespace calyrex::train
