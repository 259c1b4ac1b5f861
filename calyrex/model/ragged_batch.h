// A batch without padding: the concatenation of its sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/base/token.h"

namespace calyrex::model {

/// One sequence to pack. `first_position` is the position of its first token (0 unless it continues a cached
/// prefix). Tokens before `share_limit` may be the same batch rows as in an earlier sequence that begins
/// alike.
struct SequenceInput {
  std::vector<TokenId> token_ids;
  TokenSpans system_spans;  // token positions within token_ids
  int64_t first_position = 0;
  int64_t share_limit = 0;
};

struct RaggedBatch {
  struct Sequence {
    int64_t begin = 0;                 // batch row of its first own token
    int64_t length = 0;                // tokens, shared ones included
    TokenSpans system_spans;           // token positions; sorted, disjoint
    std::vector<int64_t> shared_rows;  // batch rows of its first tokens, of earlier sequences; ascending

    int64_t num_shared() const { return static_cast<int64_t>(shared_rows.size()); }
    int64_t num_own() const { return length - num_shared(); }
    int64_t end() const { return begin + num_own(); }
    int64_t row(int64_t token) const {
      return token < num_shared() ? shared_rows[static_cast<size_t>(token)] : begin + token - num_shared();
    }
  };

  at::Tensor token_ids;  // [num_rows] int64
  at::Tensor positions;  // [num_rows] int64
  std::vector<Sequence> sequences;
  int64_t row_multiple = 1;  // what lists of rows are filled up to

  int64_t num_rows() const { return token_ids.size(0); }
  bool shares_rows() const;
};

/// Packs sequences in the order given. A token's state depends on the tokens up to it and on which of them
/// are of a span, so sequences that agree in both share rows, as far as their limits allow. Spans must be
/// sorted, disjoint, non-empty and inside their sequence (CALYREX_CHECK); ids must be below `vocab_size`
/// (kInvalidArgument). One more sequence of token 0 makes the number of rows a multiple of `row_multiple`:
/// where products are compiled for each number of rows they see, fewer numbers save time.
RaggedBatch pack(std::span<const SequenceInput> sequences, int64_t vocab_size, at::Device device,
                 int64_t row_multiple = 1);

/// The list, and the last rows of [0, num_rows) that are neither in it nor in `barred`, so many that its
/// length is a multiple of `multiple`; fewer if there are no more.
std::vector<int64_t> fill_up(std::vector<int64_t> rows, int64_t multiple, int64_t num_rows,
                             const std::vector<int64_t>& barred = {});

}  // namespace calyrex::model
