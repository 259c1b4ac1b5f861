// Forward, backward and optimiser steps of an adapter on a frozen backbone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/model/adapter.h"
#include "calyrex/model/decoder.h"
#include "calyrex/train/config.h"
#include "calyrex/train/dataset.h"
#include "calyrex/train/optimizer.h"

namespace calyrex::train {

class PrefixCache;

/// Tokens that go through the network at once when the configuration leaves it open: what keeps activations
/// in reach and products efficient, from the backbone's width alone, so that the bits do not depend on the
/// machine's load.
int64_t default_micro_batch_tokens(const weights::ModelConfig& backbone);

/// Last layer whose output depends on tokens alone and is all that an adapter needs; -1 when there is none.
int64_t prefix_cache_layer(const model::Adapter& adapter);

/// A step's numbers, before its update.
struct StepResult {
  double loss = 0.0;  // mean over the step's label tokens
  int64_t tokens = 0;
  int64_t label_tokens = 0;
  GradientNorms norms;
};

using RowPointers = std::vector<const TrainingRow*>;

/// Owns nothing of the run but the network, the adapter and the optimiser. Thread-compatible.
class Trainer {
 public:
  Trainer(std::shared_ptr<const model::Decoder> decoder, std::shared_ptr<model::Adapter> adapter,
          const TrainSettings& settings);

  /// States below the first block are taken from and put into `cache`, which outlives the trainer; null =
  /// none.
  void use_prefix_cache(PrefixCache* cache) { cache_ = cache; }

  /// Accumulates the gradient of the mean loss over all label tokens of the rows, micro batch by micro batch.
  /// Throws kInvalidArgument naming step, rows or tensor when loss or gradient is not finite, with no update
  /// made. `should_stop` is asked between micro batches; when it says yes the result is empty and the
  /// gradients are dropped.
  std::optional<StepResult> accumulate(const RowPointers& rows, int64_t step,
                                       const std::function<bool()>& should_stop);

  /// Clips and applies what accumulate() gathered.
  void update(const StepResult& result, double lr_factor);

  /// Mean loss over all label tokens of the rows, without gradients. Empty when asked to stop.
  std::optional<double> evaluate(const RowPointers& rows, const std::function<bool()>& should_stop);

  model::Adapter& adapter() { return *adapter_; }
  Optimizer& optimizer() { return optimizer_; }

 private:
  at::Tensor micro_batch_loss(const RowPointers& rows, double factor);
  /// States of one row after the cache's layer, [tokens, hidden_size] bfloat16: a row is computed by itself,
  /// so that it does not depend on its batch, and rounded before use, so that a hit and a miss are the same
  /// bits.
  at::Tensor row_states(const TrainingRow& row);
  /// The same for a batch, [num_tokens, hidden_size] float32.
  at::Tensor cached_states(const RowPointers& rows, const model::RaggedBatch& batch);
  std::vector<RowPointers> split(const RowPointers& rows) const;

  std::shared_ptr<const model::Decoder> decoder_;
  std::shared_ptr<model::Adapter> adapter_;
  TrainSettings settings_;
  int64_t micro_batch_tokens_;
  Optimizer optimizer_;
  PrefixCache* cache_ = nullptr;
};

}  // namespace calyrex::train
