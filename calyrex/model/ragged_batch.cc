#include "calyrex/model/ragged_batch.h"

#include <ATen/ATen.h>

#include "calyrex/base/error.h"

namespace calyrex::model {
namespace {

void check_spans(const SequenceInput& sequence) {
  int64_t end = 0;
  for (const TokenSpan& span : sequence.system_spans) {
    CALYREX_CHECK(span.begin >= end && span.begin < span.end, "spans must be sorted, disjoint and not empty");
    end = span.end;
  }
  CALYREX_CHECK(end <= static_cast<int64_t>(sequence.token_ids.size()), "a span leaves its sequence");
}

}  // namespace

RaggedBatch pack(std::span<const SequenceInput> sequences, int64_t vocab_size, at::Device device) {
  int64_t num_tokens = 0;
  for (const SequenceInput& sequence : sequences)
    num_tokens += static_cast<int64_t>(sequence.token_ids.size());
  RaggedBatch batch;
  batch.token_ids = at::empty({num_tokens}, at::kLong);
  batch.positions = at::empty({num_tokens}, at::kLong);
  auto* ids = batch.token_ids.mutable_data_ptr<int64_t>();
  auto* positions = batch.positions.mutable_data_ptr<int64_t>();
  int64_t row = 0;
  for (const SequenceInput& sequence : sequences) {
    check_spans(sequence);
    const auto length = static_cast<int64_t>(sequence.token_ids.size());
    batch.sequences.push_back({.begin = row, .length = length, .system_spans = sequence.system_spans});
    for (int64_t n = 0; n < length; ++n, ++row) {
      const TokenId id = sequence.token_ids[static_cast<size_t>(n)];
      if (id < 0 || id >= vocab_size) {
        fail(ErrorCode::kInvalidArgument, "token id {} is outside the model's vocabulary of {}", id,
             vocab_size);
      }
      ids[row] = id;
      positions[row] = sequence.first_position + n;
    }
  }
  batch.token_ids = batch.token_ids.to(device);
  batch.positions = batch.positions.to(device);
  return batch;
}

}  // namespace calyrex::model
