#include "calyrex/infer/quant_runner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/core/Tensor.h>

#include "calyrex/base/error.h"
#include "calyrex/kernels/elementwise.h"
#include "calyrex/kernels/logits.h"
#include "calyrex/kernels/norm.h"
#include "calyrex/kernels/qkv_rope.h"
#include "calyrex/kernels/quant_matmul.h"

namespace calyrex::infer {
namespace {

using kernels::QuantMatrix;
using kernels::QuantRows;
using kernels::RowPrecision;

/// Rows of an MLP that are computed together: what lies between its products stays in the caches.
constexpr int64_t kMlpRows = 64;

const float* pointer_or_null(const std::vector<float>& values) {
  return values.empty() ? nullptr : values.data();
}

kernels::BFloat16* page_values(const at::Tensor& pages) {
  return static_cast<kernels::BFloat16*>(pages.data_ptr());
}

kernels::PairedLayout layout_of(const PagedCache& cache) {
  CALYREX_CHECK(cache.shape().page_size == kernels::PairedLayout::kPageSize, "{}", cache.shape().page_size);
  return {cache.shape().num_kv_heads, cache.shape().head_dim};
}

/// out[r, :] = x[row_begin + r] w^T.
void product(kernels::TeamMember& team, const QuantMatrix& w, const QuantRows& x, int64_t row_begin,
             int64_t count, float* out) {
  if (count == 0) return;
  const kernels::QuantMatmulArgs args{.w = &w,
                                      .x = &x,
                                      .row_begin = row_begin,
                                      .row_end = row_begin + count,
                                      .out = out,
                                      .out_stride = w.rows()};
  team.phase(w.groups(), [&](int64_t begin, int64_t end) { kernels::quant_matmul(args, begin, end); });
}

/// Writes one row of keys and one of values where it belongs.
void store_row(const PagedCache& cache, int64_t layer, const float* k, const float* v, int64_t slot) {
  const auto& [k_pages, v_pages] = cache.pages(layer);
  kernels::store_paired(layout_of(cache), k, v, slot, page_values(k_pages), page_values(v_pages));
}

template <typename T>
void grow(std::vector<T>& values, int64_t count) {
  if (static_cast<int64_t>(values.size()) < count) values.resize(static_cast<size_t>(count));
}

}  // namespace

std::vector<LogitsRow> QuantRunner::run(const QuantBatch& batch) {
  make_room(batch);
  kernels::run_team([&](Team& team) { pass(team, batch); });
  return results_;
}

void QuantRunner::make_stage(Stage& stage, const StageShape& shape,
                             const std::vector<kernels::AttentionRun>& queries, const PagedCache* cache) {
  stage.mlp_input.resize(shape.rows, hidden_size(), RowPrecision::kInt8);
  stage.activated.resize(std::min(shape.rows, kMlpRows), shape.intermediate_size, RowPrecision::kInt8);
  grow(gate_up_, std::min(shape.rows, kMlpRows) * 2 * shape.intermediate_size);
  if (cache == nullptr) return;
  const kernels::PairedLayout layout = layout_of(*cache);
  const int64_t query_width = shape.num_heads * layout.head_dim;
  const int64_t key_width = layout.num_kv_heads * layout.head_dim;
  stage.attention_input.resize(shape.queries, hidden_size(), RowPrecision::kInt16);
  stage.key_input.resize(shape.keys, hidden_size(), RowPrecision::kInt16);
  stage.attended.resize(shape.queries, query_width, RowPrecision::kInt8);
  grow(packed_, shape.queries * (query_width + 2 * key_width) + shape.keys * 2 * key_width);
  grow(q_, shape.queries * query_width);
  grow(attended_, shape.queries * query_width);
  grow(k_, std::max(shape.queries, shape.keys) * key_width);
  grow(v_, std::max(shape.queries, shape.keys) * key_width);
  stage.attention = kernels::TiledAttention(layout, shape.num_heads, queries);
}

void QuantRunner::make_room(const QuantBatch& batch) {
  const weights::ModelConfig& config = network_.config();
  const int64_t rows = batch.size();
  const auto sampled = static_cast<int64_t>(batch.sampled_rows.size());
  for (std::vector<float>* values : {&hidden_, &delta_}) grow(*values, rows * hidden_size());
  for (std::vector<float>* values : {&cos_, &sin_}) grow(*values, rows * config.head_dim / 2);
  all_rows_.rows.resize(static_cast<size_t>(rows));
  std::iota(all_rows_.rows.begin(), all_rows_.rows.end(), int64_t{0});
  groups_.resize(batch.groups.size());
  make_stage(backbone_,
             {.rows = rows,
              .queries = rows,
              .num_heads = config.num_heads,
              .intermediate_size = config.intermediate_size},
             batch.queries, &cache_);
  for (size_t n = 0; n < groups_.size(); ++n) {
    const QuantGroup& group = batch.groups[n];
    const weights::AdapterConfig& adapter = group.adapter->config();
    const bool cal = adapter.kind == weights::AdapterKind::kCal;
    if (group.adapter->reads_layer_input()) grow(layer_input_, rows * hidden_size());
    make_stage(
        groups_[n],
        {.rows = group.rows.size(),
         .queries = group.query_rows.size(),
         .keys = group.key_rows.size(),
         .num_heads = adapter.cal.num_heads,
         .intermediate_size = cal ? adapter.cal.intermediate_size : adapter.parallel_mlp.intermediate_size},
        group.queries, cal ? &group.adapter->spans->cache() : nullptr);
  }
  head_input_.resize(sampled, hidden_size(), RowPrecision::kInt8);
  grow(logits_, sampled * config.vocab_size);
  results_.resize(static_cast<size_t>(sampled));
}

void QuantRunner::pass(Team& team, const QuantBatch& batch) {
  start(team, batch);
  for (int64_t layer = 0; layer < network_.config().num_layers; ++layer) {
    const bool input_is_read = std::ranges::any_of(batch.groups, [&](const QuantGroup& group) {
      return group.adapter->reads_layer_input() && group.adapter->blocks.contains(layer);
    });
    if (input_is_read) {
      team.phase(batch.size() * hidden_size(), [&](int64_t begin, int64_t end) {
        std::copy(hidden_.begin() + begin, hidden_.begin() + end, layer_input_.begin() + begin);
      });
    }
    self_attention(team, batch, layer);
    add_mlp(team, network_.layers()[static_cast<size_t>(layer)].mlp, hidden_.data(), all_rows_, 1.0f,
            backbone_);
    for (size_t n = 0; n < groups_.size(); ++n) block(team, batch.groups[n], groups_[n], layer);
  }
  write_logits(team, batch);
}

void QuantRunner::start(Team& team, const QuantBatch& batch) {
  const std::vector<float>& frequencies = network_.inverse_frequencies();
  const size_t half = frequencies.size();
  const auto width = static_cast<size_t>(hidden_size());
  team.phase(batch.size(), [&](int64_t begin, int64_t end) {
    for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
      network_.embed(batch.token_ids[row], std::span(hidden_).subspan(row * width, width));
      for (size_t n = 0; n < half; ++n) {
        const float angle = static_cast<float>(batch.positions[row]) * frequencies[n];
        cos_[row * half + n] = std::cos(angle);
        sin_[row * half + n] = std::sin(angle);
      }
    }
  });
}

void QuantRunner::norm(Team& team, const float* input, const RowSet& rows, const std::vector<float>& weight,
                       float eps, QuantRows& out) {
  team.phase(rows.size(), [&](int64_t begin, int64_t end) {
    thread_local std::vector<float> normed;
    grow(normed, hidden_size());
    for (int64_t n = begin; n < end; ++n) {
      kernels::rms_norm(input + rows.rows[static_cast<size_t>(n)] * hidden_size(), weight.data(), eps,
                        /*rows=*/1, hidden_size(), normed.data());
      kernels::quantize_rows(normed.data(), hidden_size(), n, n + 1, out);
    }
  });
}

void QuantRunner::add_product(Team& team, const QuantMatrix& w, const QuantRows& x, int64_t count,
                              const RowSet& rows, int64_t first, float factor) {
  if (rows.contiguous()) {
    const kernels::QuantMatmulArgs args{
        .w = &w,
        .x = &x,
        .row_end = count,
        .out = hidden_.data() + rows.rows[static_cast<size_t>(first)] * hidden_size(),
        .out_stride = hidden_size(),
        .add = true,
        .factor = factor};
    team.phase(w.groups(), [&](int64_t begin, int64_t end) { kernels::quant_matmul(args, begin, end); });
    return;
  }
  product(team, w, x, 0, count, delta_.data());
  team.phase(count, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      kernels::add_scaled(hidden_.data() + rows.rows[static_cast<size_t>(first + n)] * hidden_size(),
                          delta_.data() + n * hidden_size(), factor, hidden_size());
    }
  });
}

void QuantRunner::attend(Team& team, Stage& stage, const PagedCache& cache, int64_t layer) {
  const auto& [k_pages, v_pages] = cache.pages(layer);
  const kernels::TiledAttentionArgs args{.q = q_.data(),
                                         .k_pages = page_values(k_pages),
                                         .v_pages = page_values(v_pages),
                                         .out = attended_.data()};
  team.phase(stage.attention.num_tasks(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) stage.attention.attend(args, n);
  });
  const int64_t width = stage.attended.columns();
  team.phase(stage.attention.num_rows(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) stage.attention.merge(args, row);
    kernels::quantize_rows(attended_.data() + begin * width, width, begin, end, stage.attended);
  });
}

void QuantRunner::self_attention(Team& team, const QuantBatch& batch, int64_t layer) {
  const weights::ModelConfig& config = network_.config();
  const QuantLayer& weights = network_.layers()[static_cast<size_t>(layer)];
  const auto eps = static_cast<float>(config.rms_norm_eps);
  norm(team, hidden_.data(), all_rows_, weights.norm, eps, backbone_.attention_input);
  product(team, weights.qkv, backbone_.attention_input, 0, batch.size(), packed_.data());
  const int64_t half = config.head_dim / 2;
  const int64_t query_width = config.num_heads * config.head_dim;
  const int64_t key_width = config.num_kv_heads * config.head_dim;
  team.phase(batch.size(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernels::qkv_rope(kernels::QkvRopeArgs<float, float>{
          .transform = {.heads = {config.num_heads, config.num_kv_heads, config.head_dim},
                        .bias = pointer_or_null(weights.qkv_bias),
                        .q_norm = pointer_or_null(weights.q_norm),
                        .k_norm = pointer_or_null(weights.k_norm),
                        .norm_eps = eps,
                        .cos = cos_.data() + row * half,
                        .sin = sin_.data() + row * half},
          .rows = 1,
          .qkv = packed_.data() + row * weights.qkv.rows(),
          .q = q_.data() + row * query_width,
          .k = k_.data() + row * key_width,
          .v = v_.data() + row * key_width});
      store_row(cache_, layer, k_.data() + row * key_width, v_.data() + row * key_width,
                batch.slots[static_cast<size_t>(row)]);
    }
  });
  attend(team, backbone_, cache_, layer);
  add_product(team, weights.o, backbone_.attended, batch.size(), all_rows_, 0, 1.0f);
}

void QuantRunner::add_mlp(Team& team, const QuantMlp& mlp, const float* input, const RowSet& rows,
                          float factor, Stage& stage) {
  norm(team, input, rows, mlp.norm, mlp.norm_eps, stage.mlp_input);
  const int64_t width = mlp.down.columns();
  for (int64_t first = 0; first < rows.size(); first += kMlpRows) {
    const int64_t count = std::min(kMlpRows, rows.size() - first);
    product(team, mlp.gate_up, stage.mlp_input, first, count, gate_up_.data());
    team.phase(count, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        float* row = gate_up_.data() + n * 2 * width;
        kernels::swiglu(row, /*rows=*/1, width, row);
      }
      kernels::quantize_rows(gate_up_.data() + begin * 2 * width, 2 * width, begin, end, stage.activated);
    });
    add_product(team, mlp.down, stage.activated, count, rows, first, factor);
  }
}

void QuantRunner::cross_attention(Team& team, const QuantGroup& group, const QuantBlocks& block, Stage& stage,
                                  int64_t layer) {
  const weights::CalConfig& config = group.adapter->config().cal;
  const auto eps = static_cast<float>(config.rms_norm_eps);
  const PagedCache& cache = group.adapter->spans->cache();
  const int64_t query_width = config.num_heads * config.head_dim;
  const int64_t key_width = config.num_kv_heads * config.head_dim;
  float* packed_keys = packed_.data() + group.query_rows.size() * query_width;
  norm(team, hidden_.data(), group.key_rows, block.attn_norm, eps, stage.key_input);
  norm(team, hidden_.data(), group.query_rows, block.attn_norm, eps, stage.attention_input);
  product(team, block.q, stage.attention_input, 0, group.query_rows.size(), packed_.data());
  product(team, block.kv, stage.key_input, 0, group.key_rows.size(), packed_keys);

  // Rows keep the rotation of their place in the sequence.
  const int64_t half = config.head_dim / 2;
  const bool rotate = config.position == weights::CalPosition::kRope;
  const auto transform = [&](int64_t row) {
    return kernels::QkvTransform{.norm_eps = eps,
                                 .cos = rotate ? cos_.data() + row * half : nullptr,
                                 .sin = rotate ? sin_.data() + row * half : nullptr};
  };
  team.phase(group.query_rows.size(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      kernels::QkvRopeArgs<float, float> args{
          .transform = transform(group.query_rows.rows[static_cast<size_t>(n)]),
          .rows = 1,
          .qkv = packed_.data() + n * query_width,
          .q = q_.data() + n * query_width};
      args.transform.heads = {config.num_heads, 0, config.head_dim};
      args.transform.bias = pointer_or_null(block.q_bias);
      args.transform.q_norm = pointer_or_null(block.q_norm);
      kernels::qkv_rope(args);
    }
  });
  team.phase(group.key_rows.size(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const auto at = static_cast<size_t>(n);
      kernels::QkvRopeArgs<float, float> args{.transform = transform(group.key_rows.rows[at]),
                                              .rows = 1,
                                              .qkv = packed_keys + n * 2 * key_width,
                                              .k = k_.data() + n * key_width,
                                              .v = v_.data() + n * key_width};
      args.transform.heads = {0, config.num_kv_heads, config.head_dim};
      args.transform.bias = pointer_or_null(block.kv_bias);
      args.transform.k_norm = pointer_or_null(block.k_norm);
      kernels::qkv_rope(args);
      store_row(cache, layer, args.k, args.v, group.key_slots[at]);
    }
  });
  if (group.query_rows.empty()) return;
  attend(team, stage, cache, layer);
  add_product(team, block.o, stage.attended, group.query_rows.size(), group.query_rows, 0, group.scale);
}

void QuantRunner::block(Team& team, const QuantGroup& group, Stage& stage, int64_t layer) {
  const auto found = group.adapter->blocks.find(layer);
  if (found == group.adapter->blocks.end()) return;
  const QuantBlocks& block = found->second;
  if (block.q.defined() && !(group.query_rows.empty() && group.key_rows.empty())) {
    cross_attention(team, group, block, stage, layer);
  }
  const bool anchored = group.adapter->config().mlp_scope() == weights::MlpScope::kAnchored;
  const RowSet& rows = anchored ? group.query_rows : group.rows;
  if (!block.mlp.down.defined() || rows.empty()) return;
  const float* input = group.adapter->reads_layer_input() ? layer_input_.data() : hidden_.data();
  add_mlp(team, block.mlp, input, rows, group.scale, stage);
}

void QuantRunner::write_logits(Team& team, const QuantBatch& batch) {
  const int64_t vocab = network_.config().vocab_size;
  const RowSet sampled{.rows = batch.sampled_rows};
  norm(team, hidden_.data(), sampled, network_.final_norm(),
       static_cast<float>(network_.config().rms_norm_eps), head_input_);
  product(team, network_.head(), head_input_, 0, sampled.size(), logits_.data());
  team.phase(sampled.size(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* logits = logits_.data() + n * vocab;
      const kernels::LogitsSummary summary = kernels::summarize_logits(logits, vocab);
      results_[static_cast<size_t>(n)] = {.logits = {logits, static_cast<size_t>(vocab)},
                                          .best = summary.best,
                                          .log_sum_exp = summary.log_sum_exp};
    }
  });
}

}  // namespace calyrex::infer
