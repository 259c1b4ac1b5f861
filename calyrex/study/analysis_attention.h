// Where attention goes: mass on the system span in the backbone, weights over the span's tokens in CAL
// blocks, and what each block adds.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/model/attention.h"
#include "calyrex/study/analysis_batch.h"

namespace calyrex::study {

/// Softmax weights of queries [n, heads, head_dim] over keys [m, kv_heads, head_dim]: [heads, n, m] float32.
/// Query i sees the first visible[i] keys; empty = all.
at::Tensor attention_weights(const at::Tensor& queries, const at::Tensor& keys,
                             std::span<const int64_t> visible);

/// Share of the backbone's self-attention on the span's tokens, mean over rows: [layers, heads] float64.
struct SpanAttention {
  at::Tensor last_prompt_token;
  at::Tensor answer;  // mean over the tokens that predict the answer
};
SpanAttention measure_span_attention(const StudiedModel& model, std::span<const AnalysisBatch> batches);

/// What one block does at the tokens that predict the answer, mean over rows.
struct BlockActivity {
  double attention_ratio = 0.0;  // norm of what the attention adds, against the residual stream's
  double mlp_ratio = 0.0;
  std::vector<double> focus;  // of each head: 1 - entropy of its weights / log(span tokens)
};

/// A row's weights over its span tokens in one block, [heads, span tokens] float32.
struct SpanWeights {
  at::Tensor last_prompt_token;
  at::Tensor answer;
};

struct BlockMeasures {
  std::map<int64_t, BlockActivity> activity;  // by layer
  /// By layer; the first `examples` rows. Empty for blocks without attention.
  std::map<int64_t, std::vector<SpanWeights>> weights;
};
BlockMeasures measure_blocks(const StudiedModel& model, std::span<const AnalysisBatch> batches,
                             size_t examples);

/// Switches parts of blocks off.
class BlockSwitch final : public model::BlockObserver {
 public:
  using Part = model::AdapterParameter::Part;
  explicit BlockSwitch(std::set<std::pair<int64_t, Part>> off) : off_(std::move(off)) {}
  double on_contribution(int64_t layer, Part part, const at::Tensor&, const at::Tensor&,
                         const at::Tensor&) override {
    return off_.contains({layer, part}) ? 0.0 : 1.0;
  }

 private:
  std::set<std::pair<int64_t, Part>> off_;
};

}  // namespace calyrex::study
