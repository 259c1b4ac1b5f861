// Rows of the analysis as batches, with the places that are looked at.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "calyrex/model/adapter.h"
#include "calyrex/model/decoder.h"
#include "calyrex/model/ragged_batch.h"
#include "calyrex/study/analysis_rows.h"

namespace calyrex::study {

/// A backbone and an adapter (or none) at a strength.
struct StudiedModel {
  std::shared_ptr<const model::Decoder> decoder;
  std::shared_ptr<const model::Adapter> adapter;
  double scale = 1.0;

  /// The backbone alone.
  StudiedModel base() const { return {.decoder = decoder}; }
  /// Layers with a block after them; empty for LoRA and without an adapter.
  std::vector<int64_t> blocks() const;
};

/// One batch: its sequences, and the batch rows whose states predict the tokens of the reference answers.
struct AnalysisBatch {
  std::span<const AnalysisRow> rows;
  model::RaggedBatch batch;
  std::vector<int64_t> last;     // of each sequence, the batch row of its last prompt token
  std::vector<int64_t> read;     // sequence by sequence
  std::vector<int64_t> targets;  // the token that each predicts
  std::vector<size_t> owner;     // the sequence of each
};

/// Rows in order, at most `batch_rows` a batch.
std::vector<AnalysisBatch> make_batches(std::span<const AnalysisRow> rows, int64_t batch_rows,
                                        const model::Decoder& decoder);
/// The same rows' prompts without their system messages: `last` alone is set.
std::vector<AnalysisBatch> make_batches_without_system(std::span<const AnalysisRow> rows, int64_t batch_rows,
                                                       const model::Decoder& decoder);

/// States after each layer and its block at the last prompt tokens: the embedding, then one a layer, each
/// [rows, hidden_size] float32 on the CPU.
std::vector<at::Tensor> last_states(const StudiedModel& model, std::span<const AnalysisBatch> batches);

at::Tensor index_tensor(std::span<const int64_t> values, at::Device device);

}  // namespace calyrex::study
