// Full fine-tuning (kind: full): the backbone's own weights are what is trained.
#pragma once

#include <memory>

#include "calyrex/model/adapter.h"
#include "calyrex/model/decoder.h"

namespace calyrex::model {

/// A decoder that is trained, and the list of its weights. The list stands where other kinds have their
/// adapter; it has no blocks and no strength.
struct TrainableBackbone {
  std::shared_ptr<const Decoder> decoder;
  std::shared_ptr<Adapter> weights;
};

/// Float32 masters with the values of `model`, or of a checkpoint of kind full. `config` is resolved.
TrainableBackbone load_trainable_backbone(const weights::AdapterConfig& config,
                                          const weights::ModelSource& model,
                                          const weights::AdapterFolder* checkpoint,
                                          at::ScalarType compute_dtype, at::Device device);

}  // namespace calyrex::model
