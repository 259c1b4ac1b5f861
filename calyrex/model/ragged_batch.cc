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

RaggedBatch pack(std::span<const SequenceInput> sequences, int64_t vocab_size, at::Device device,
                 int64_t row_multiple) {
  RaggedBatch batch{.row_multiple = row_multiple};
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
  RaggedBatch::Sequence filling{.begin = static_cast<int64_t>(ids.size())};
  while (static_cast<int64_t>(ids.size()) % row_multiple != 0) {
    ids.push_back(0);
    positions.push_back(filling.length++);
  }
  if (filling.length > 0) batch.sequences.push_back(std::move(filling));
  batch.token_ids = at::tensor(ids, at::kLong).to(device);
  batch.positions = at::tensor(positions, at::kLong).to(device);
  return batch;
}

std::vector<int64_t> fill_up(std::vector<int64_t> rows, int64_t multiple, int64_t num_rows,
                             const std::vector<int64_t>& barred) {
  std::vector<bool> taken(static_cast<size_t>(num_rows), false);
  for (const int64_t row : rows) taken[static_cast<size_t>(row)] = true;
  for (const int64_t row : barred) taken[static_cast<size_t>(row)] = true;
  for (int64_t row = num_rows - 1; row >= 0 && static_cast<int64_t>(rows.size()) % multiple != 0; --row) {
    if (!taken[static_cast<size_t>(row)]) rows.push_back(row);
  }
  return rows;
}

}  // namespace calyrex::model
