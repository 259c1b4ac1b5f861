// LoRA (Hu et al., 2021): y = W x + scale * B A x in the linears of the layers.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/model/adapter.h"
#include "calyrex/model/frozen_matrix.h"
#include "calyrex/model/parameter_builder.h"
#include "calyrex/model/trained_tensor.h"

namespace calyrex::model {

/// The updates of a joined linear: one product with all A below each other, then one with each B.
struct LowRankUpdate {
  struct Part {
    int64_t out_begin = 0;   // first column of the joined product that the part adds to
    int64_t rank_begin = 0;  // first row of its A
    double scale = 1.0;
    TrainedTensor b;  // [out, rank]

    int64_t rank() const { return b.leaf.size(1); }
    int64_t out() const { return b.leaf.size(0); }
  };
  TrainedTensor a;  // [sum of ranks, in]
  std::vector<Part> parts;
};

/// x [rows, in] times the frozen weight, with the update at the given strength on every row; under autograd.
/// Besides x, the backward pass keeps only x A^T.
at::Tensor low_rank_linear(const at::Tensor& x, const FrozenMatrix& weight, const LowRankUpdate& update,
                           double strength);

/// y += strength * update of x on some rows (undefined = all), in place; never under autograd.
void add_low_rank_(at::Tensor& y, const at::Tensor& x, const at::Tensor& rows, const LowRankUpdate& update,
                   double strength);

class LoraAdapter final : public Adapter {
 public:
  /// `config` is resolved.
  LoraAdapter(weights::AdapterConfig config, ParameterBuilder& builder);

  bool works_inside_layers() const override { return true; }
  const LowRankUpdate* low_rank_update(int64_t layer, LayerLinear linear) const override;

 private:
  std::vector<LowRankUpdate> updates_;  // [layers * kNumLayerLinears], without parts where there is none
};

}  // namespace calyrex::model
