// Scaled dot-product attention over plans, and the interface that lets training, scoring and the paged engine
// share one description of the network.
#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "calyrex/model/attention_plan.h"

namespace calyrex::model {

/// How queries of one layer meet keys and values. `layer` is the backbone layer (self-attention), or the
/// layer that a CAL block follows. Queries, keys and values are float32 or the compute dtype.
class Attention {
 public:
  virtual ~Attention() = default;
  /// q [num_queries, num_heads, head_dim], k and v [num_keys, num_kv_heads, head_dim]
  /// -> [num_queries, num_heads, head_dim], same dtype as q.
  virtual at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) = 0;
};

/// Runs a plan with the library's fused forward and backward, segment by segment into preallocated tensors.
/// Works under autograd. Scale is 1/sqrt(head_dim).
class PlanAttention final : public Attention {
 public:
  /// The plan and how it is run.
  struct Prepared;

  explicit PlanAttention(AttentionPlan plan);
  at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override;

 private:
  std::shared_ptr<const Prepared> prepared_;
};

/// The same by a few plain ops with a dense mask; the oracle of the tests.
at::Tensor attention_reference(const AttentionPlan& plan, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v);

}  // namespace calyrex::model
