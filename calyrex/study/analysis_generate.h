// Greedy answers of a model whose blocks are watched, weakened, or fed with another row's system message.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/base/token.h"
#include "calyrex/model/adapter.h"
#include "calyrex/model/ragged_batch.h"
#include "calyrex/study/analysis_batch.h"

namespace calyrex::study {

/// Keys and values that each block computes from the spans of some sequences, those of a sequence one after
/// the other: [sum of lengths, kv_heads, head_dim] by layer.
struct SpanValues {
  std::map<int64_t, at::Tensor> keys;
  std::map<int64_t, at::Tensor> values;
  std::vector<int64_t> lengths;  // span tokens of each sequence
};
SpanValues compute_span_values(const StudiedModel& model, std::span<const model::SequenceInput> sequences);

struct GenerateOptions {
  int64_t max_new_tokens = 48;
  std::vector<TokenId> stop_ids;
  model::BlockObserver* observer = nullptr;
  /// What the tokens after each prompt's spans attend to instead of these spans; one sequence a prompt.
  /// Tokens inside the spans keep their own.
  const SpanValues* donors = nullptr;
};

/// The most likely token at each step, up to a stop token (left out), for all prompts in one batch. Each
/// prompt has a span where a donor is given.
std::vector<std::vector<TokenId>> generate_greedy(const StudiedModel& model,
                                                  std::span<const model::SequenceInput> prompts,
                                                  const GenerateOptions& options);

}  // namespace calyrex::study
