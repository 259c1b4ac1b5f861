// The forward pass on raw buffers: integer products over packed weights, one parallel region a step.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "calyrex/infer/core/executor.h"
#include "calyrex/infer/paged_cache.h"
#include "calyrex/infer/quant_batch.h"
#include "calyrex/infer/quant_network.h"
#include "calyrex/kernels/quant_rows.h"
#include "calyrex/kernels/team.h"
#include "calyrex/kernels/tiled_attention.h"

namespace calyrex::infer {

/// Computes what model::Decoder and its adapters compute, with activations of 8 bits in products (16 bits
/// into attention and into the head) and float32 between them. Owns the buffers of a step, which only ever
/// grow. The pages of `cache` and of an adapter's spans are laid out as kernels::PairedLayout. The bits of a
/// row depend neither on the other rows of the step nor on the number of threads. Thread-compatible.
class QuantRunner {
 public:
  /// `cache`: bfloat16 on the CPU, all layers; it and the network outlive the runner.
  QuantRunner(const QuantNetwork& network, PagedCache& cache) : network_(network), cache_(cache) {}

  /// Computes all rows and stores their keys and values. Returns one row of logits for each sampled row;
  /// they are valid until the next call.
  std::vector<LogitsRow> run(const QuantBatch& batch);

 private:
  using Team = kernels::TeamMember;

  /// Inputs of products and the plan of one attention: of the backbone, or of one group.
  struct Stage {
    kernels::QuantRows attention_input;  // [query rows, hidden_size]
    kernels::QuantRows key_input;        // [key rows, hidden_size], groups only
    kernels::QuantRows attended;         // [query rows, num_heads * head_dim]
    kernels::QuantRows mlp_input;        // [rows, hidden_size]
    kernels::QuantRows activated;        // [rows of a chunk, intermediate_size]
    kernels::TiledAttention attention;
  };
  /// The size of one stage's buffers.
  struct StageShape {
    int64_t rows = 0;
    int64_t queries = 0;
    int64_t keys = 0;
    int64_t num_heads = 0;
    int64_t intermediate_size = 0;
  };

  // Before the parallel region.
  void make_room(const QuantBatch& batch);
  void make_stage(Stage& stage, const StageShape& shape, const std::vector<kernels::AttentionRun>& queries,
                  const PagedCache* cache);

  // On every thread of the region, phase by phase.
  void pass(Team& team, const QuantBatch& batch);
  void start(Team& team, const QuantBatch& batch);
  void self_attention(Team& team, const QuantBatch& batch, int64_t layer);
  void block(Team& team, const QuantGroup& group, Stage& stage, int64_t layer);
  void cross_attention(Team& team, const QuantGroup& group, const QuantBlocks& block, Stage& stage,
                       int64_t layer);
  void attend(Team& team, Stage& stage, const PagedCache& cache, int64_t layer);
  void add_mlp(Team& team, const QuantMlp& mlp, const float* input, const RowSet& rows, float factor,
               Stage& stage);
  void write_logits(Team& team, const QuantBatch& batch);

  /// Norms some rows of `input` and rounds them.
  void norm(Team& team, const float* input, const RowSet& rows, const std::vector<float>& weight, float eps,
            kernels::QuantRows& out);
  /// hidden[rows[first + i]] += factor * (x[i] . w) for i below `count`.
  void add_product(Team& team, const kernels::QuantMatrix& w, const kernels::QuantRows& x, int64_t count,
                   const RowSet& rows, int64_t first, float factor);

  int64_t hidden_size() const { return network_.config().hidden_size; }

  const QuantNetwork& network_;
  PagedCache& cache_;
  std::vector<float> hidden_;       // [rows, hidden_size], the residual stream
  std::vector<float> layer_input_;  // [rows, hidden_size], for blocks that read it
  std::vector<float> cos_, sin_;    // [rows, head_dim / 2]
  std::vector<float> packed_;       // projections of a stage
  std::vector<float> q_, k_, v_;    // heads of a stage
  std::vector<float> attended_;     // [query rows, num_heads * head_dim]
  std::vector<float> gate_up_;      // [rows of a chunk, 2 * intermediate_size]
  std::vector<float> delta_;        // [rows, hidden_size]
  kernels::QuantRows head_input_;   // [sampled rows, hidden_size]
  std::vector<float> logits_;       // [sampled rows, vocab_size]
  RowSet all_rows_;
  Stage backbone_;
  std::vector<Stage> groups_;
  std::vector<LogitsRow> results_;
};

}  // namespace calyrex::infer
