// Token ids and spans of tokens, shared by every layer.
#pragma once

#include <cstdint>
#include <vector>

namespace calyrex {

using TokenId = int32_t;

/// Half-open range of token positions within one sequence.
struct TokenSpan {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t length() const { return end - begin; }
  bool operator==(const TokenSpan&) const = default;
};

/// Spans of one sequence: sorted, disjoint, none empty.
using TokenSpans = std::vector<TokenSpan>;

}  // namespace calyrex
