// A batch without padding: the concatenation of its sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/base/token.h"

namespace calyrex::model {

/// One sequence to pack. `first_position` is the position of its first token (0 unless it continues a cached
/// prefix).
struct SequenceInput {
  std::vector<TokenId> token_ids;
  TokenSpans system_spans;  // token positions within token_ids
  int64_t first_position = 0;
};

struct RaggedBatch {
  struct Sequence {
    int64_t begin = 0;  // first row of the sequence in the batch
    int64_t length = 0;
    TokenSpans system_spans;  // relative to `begin`; sorted, disjoint
  };

  at::Tensor token_ids;  // [num_tokens] int64
  at::Tensor positions;  // [num_tokens] int64
  std::vector<Sequence> sequences;

  int64_t num_tokens() const { return token_ids.size(0); }
};

/// Packs sequences in the order given. Spans must be sorted, disjoint, non-empty and inside their sequence
/// (CALYREX_CHECK); ids must be below `vocab_size` (kInvalidArgument).
RaggedBatch pack(std::span<const SequenceInput> sequences, int64_t vocab_size, at::Device device);

}  // namespace calyrex::model
