#include "calyrex/model/ragged_batch.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <ATen/ATen.h>

#include "calyrex/base/error.h"

namespace calyrex::model {
namespace {

void check_sequence(const SequenceInput& sequence, int64_t vocab_size) {
  int64_t end = 0;
  for (const TokenSpan& span : sequence.system_spans) {
    CALYREX_CHECK(span.begin >= end && span.begin < span.end, "spans must be sorted, disjoint and not empty");
    end = span.end;
  }
  CALYREX_CHECK(end <= static_cast<int64_t>(sequence.token_ids.size()), "a span leaves its sequence");
  for (const TokenId id : sequence.token_ids) {
    if (id < 0 || id >= vocab_size) {
      fail(ErrorCode::kInvalidArgument, "token id {} is outside the model's vocabulary of {}", id,
           vocab_size);
    }
  }
}

/// The packed tokens as a tree: a token's children are the tokens that followed it in some sequence.
class TokenTree {
 public:
  /// The row of a token behind the row `parent`; none yet: -1.
  int64_t find(int64_t parent, TokenId id, bool in_span) const {
    const auto found = rows_.find({parent, id, in_span});
    return found == rows_.end() ? -1 : found->second;
  }
  void add(int64_t parent, TokenId id, bool in_span, int64_t row) {
    rows_.try_emplace({parent, id, in_span}, row);
  }

 private:
  std::map<std::tuple<int64_t, TokenId, bool>, int64_t> rows_;
};

std::vector<bool> mark_spans(const SequenceInput& sequence) {
  std::vector<bool> in_span(sequence.token_ids.size(), false);
  for (const TokenSpan& span : sequence.system_spans) {
    std::fill(in_span.begin() + span.begin, in_span.begin() + span.end, true);
  }
  return in_span;
}

}  // namespace

bool RaggedBatch::shares_rows() const {
  return std::ranges::any_of(sequences, [](const Sequence& sequence) { return sequence.num_shared() > 0; });
}

RaggedBatch pack(std::span<const SequenceInput> sequences, int64_t vocab_size, at::Device device) {
  RaggedBatch batch;
  std::vector<int64_t> ids, positions;
  TokenTree tree;
  for (const SequenceInput& input : sequences) {
    check_sequence(input, vocab_size);
    const auto length = static_cast<int64_t>(input.token_ids.size());
    const std::vector<bool> in_span = mark_spans(input);
    RaggedBatch::Sequence sequence{.length = length, .system_spans = input.system_spans};
    int64_t parent = -1 - input.first_position;  // roots differ by position
    int64_t token = 0;
    for (; token < std::min(length, input.share_limit); ++token) {
      const auto at = static_cast<size_t>(token);
      const int64_t row = tree.find(parent, input.token_ids[at], in_span[at]);
      if (row < 0) break;
      sequence.shared_rows.push_back(parent = row);
    }
    sequence.begin = static_cast<int64_t>(ids.size());
    for (; token < length; ++token) {
      const auto at = static_cast<size_t>(token);
      const auto row = static_cast<int64_t>(ids.size());
      tree.add(parent, input.token_ids[at], in_span[at], row);
      parent = row;
      ids.push_back(input.token_ids[at]);
      positions.push_back(input.first_position + token);
    }
    batch.sequences.push_back(std::move(sequence));
  }
  batch.token_ids = at::tensor(ids, at::kLong).to(device);
  batch.positions = at::tensor(positions, at::kLong).to(device);
  return batch;
}

}  // namespace calyrex::model
