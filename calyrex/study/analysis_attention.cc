#include "calyrex/study/analysis_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "calyrex/base/error.h"

namespace calyrex::study {
namespace {

using model::AdapterParameter;

/// Self-attention that also adds up what falls on the span.
class SpanMassRecorder final : public model::Attention {
 public:
  SpanMassRecorder(model::Attention* inner, const AnalysisBatch& batch, SpanAttention& sums)
      : inner_(inner), batch_(batch), sums_(sums) {}

  at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override {
    for (size_t i = 0; i < batch_.rows.size(); ++i) record(layer, i, q, k);
    return inner_->attend(layer, q, k, v);
  }

 private:
  void record(int64_t layer, size_t i, const at::Tensor& q, const at::Tensor& k) {
    const AnalysisRow& row = batch_.rows[i];
    const int64_t begin = batch_.batch.sequences[i].begin, first = row.last_prompt_token();
    std::vector<int64_t> visible;
    for (int64_t token = first; token + 1 < row.answer.end; ++token) visible.push_back(token + 1);
    const at::Tensor weights =
        attention_weights(q.narrow(0, begin + first, row.answer.length()),
                          k.narrow(0, begin, static_cast<int64_t>(row.token_ids.size())), visible);
    at::Tensor mass = at::zeros({weights.size(0), weights.size(1)}, weights.options());
    for (const TokenSpan& span : row.system_spans)
      mass += weights.narrow(2, span.begin, span.length()).sum(2);
    mass = mass.cpu().to(at::kDouble);
    sums_.last_prompt_token.select(0, layer) += mass.select(1, 0);
    sums_.answer.select(0, layer) += mass.mean(1);
  }

  model::Attention* inner_;
  const AnalysisBatch& batch_;
  SpanAttention& sums_;
};

/// Places of batch rows among `rows` (undefined: themselves), for rows that are among them.
std::vector<int64_t> places_among(const at::Tensor& rows, const std::vector<int64_t>& wanted,
                                  int64_t num_rows) {
  if (!rows.defined()) return wanted;
  const at::Tensor on_cpu = rows.cpu().contiguous();
  std::vector<int64_t> place(static_cast<size_t>(num_rows), -1);
  for (int64_t i = 0; i < on_cpu.numel(); ++i) {
    place[static_cast<size_t>(on_cpu.const_data_ptr<int64_t>()[i])] = i;
  }
  std::vector<int64_t> result;
  for (const int64_t row : wanted) result.push_back(place[static_cast<size_t>(row)]);
  return result;
}

/// Adds up per row what the blocks of one batch do.
class BlockRecorder final : public model::Attention, public model::BlockObserver {
 public:
  BlockRecorder(const AnalysisBatch& batch, double scale, size_t examples, BlockMeasures& sums)
      : batch_(batch), scale_(scale), examples_(examples), sums_(sums) {}

  /// Stands between the group and its attention.
  void watch(model::AdapterGroup& group) {
    group.observer = this;
    if (group.attention == nullptr) return;
    inner_ = group.attention;
    group.attention = this;
    queries_ = places_among(group.query_rows, batch_.read, batch_.batch.num_rows());
  }

  at::Tensor attend(int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override {
    size_t read = 0;
    int64_t key = 0;
    for (size_t i = 0; i < batch_.rows.size(); ++i) {
      int64_t keys = 0;
      for (const TokenSpan& span : batch_.rows[i].system_spans) keys += span.length();
      const auto count = static_cast<size_t>(batch_.rows[i].answer.length());
      if (keys > 0) record(layer, q, k.narrow(0, key, keys), std::span(queries_).subspan(read, count));
      read += count;
      key += keys;
    }
    return inner_->attend(layer, q, k, v);
  }

  double on_contribution(int64_t layer, AdapterParameter::Part part, const at::Tensor& hidden,
                         const at::Tensor& rows, const at::Tensor& delta) override {
    const std::vector<int64_t> places = places_among(rows, batch_.read, hidden.size(0));
    BlockActivity& activity = sums_.activity[layer];
    double& sum = part == AdapterParameter::Part::kAttention ? activity.attention_ratio : activity.mlp_ratio;
    std::vector<int64_t> seen, from;
    std::vector<size_t> owners;
    for (size_t n = 0; n < places.size(); ++n) {
      if (places[n] < 0) continue;
      seen.push_back(batch_.read[n]);
      from.push_back(places[n]);
      owners.push_back(batch_.owner[n]);
    }
    if (seen.empty()) return 1.0;
    const at::Device device = hidden.device();
    const at::Tensor added = delta.index_select(0, index_tensor(from, device)).to(at::kFloat).norm(2, 1);
    const at::Tensor stream = hidden.index_select(0, index_tensor(seen, device)).norm(2, 1);
    const at::Tensor ratios = (added * std::abs(scale_) / stream).cpu().to(at::kDouble).contiguous();
    for (size_t n = 0; n < owners.size(); ++n) {
      const auto length = static_cast<double>(batch_.rows[owners[n]].answer.length());
      sum += ratios.const_data_ptr<double>()[n] / length;
    }
    return 1.0;
  }

 private:
  void record(int64_t layer, const at::Tensor& q, const at::Tensor& keys, std::span<const int64_t> queries) {
    const at::Tensor weights =
        attention_weights(q.index_select(0, index_tensor(queries, q.device())), keys, {}).cpu();
    const auto span_tokens = static_cast<double>(keys.size(0));
    const at::Tensor entropy = -(weights * weights.clamp_min(1e-30).log()).sum(2).mean(1).to(at::kDouble);
    BlockActivity& activity = sums_.activity[layer];
    activity.focus.resize(static_cast<size_t>(weights.size(0)));
    for (size_t head = 0; head < activity.focus.size(); ++head) {
      const double h = entropy[static_cast<int64_t>(head)].item<double>();
      activity.focus[head] += span_tokens > 1 ? 1.0 - h / std::log(span_tokens) : 1.0;
    }
    std::vector<SpanWeights>& kept = sums_.weights[layer];
    if (kept.size() < examples_) {
      kept.push_back({.last_prompt_token = weights.select(1, 0).contiguous(), .answer = weights.mean(1)});
    }
  }

  const AnalysisBatch& batch_;
  double scale_;
  size_t examples_;
  BlockMeasures& sums_;
  model::Attention* inner_ = nullptr;
  std::vector<int64_t> queries_;  // of the rows read, among the block's queries
};

void run(const StudiedModel& model, const AnalysisBatch& batch, const model::ForwardContext& context) {
  model.decoder->run_layers(model.decoder->embed(batch.batch.token_ids), 0,
                            model.decoder->config().num_layers, context);
}

int64_t count_rows(std::span<const AnalysisBatch> batches) {
  int64_t rows = 0;
  for (const AnalysisBatch& batch : batches) rows += static_cast<int64_t>(batch.rows.size());
  return rows;
}

}  // namespace

at::Tensor attention_weights(const at::Tensor& queries, const at::Tensor& keys,
                             std::span<const int64_t> visible) {
  const int64_t group = queries.size(1) / keys.size(1);
  const at::Tensor wide = keys.to(at::kFloat).repeat_interleave(group, 1).permute({1, 2, 0});
  at::Tensor scores =
      queries.to(at::kFloat).transpose(0, 1).matmul(wide) / std::sqrt(static_cast<double>(queries.size(2)));
  if (!visible.empty()) {
    const at::Tensor numbers = at::arange(keys.size(0), at::TensorOptions(at::kLong).device(keys.device()));
    const at::Tensor hidden = numbers >= index_tensor(visible, keys.device()).unsqueeze(1);
    scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }
  return at::softmax(scores, -1);
}

SpanAttention measure_span_attention(const StudiedModel& model, std::span<const AnalysisBatch> batches) {
  const at::NoGradGuard no_grad;
  const weights::ModelConfig& config = model.decoder->config();
  const auto zeros = [&] { return at::zeros({config.num_layers, config.num_heads}, at::kDouble); };
  SpanAttention sums{.last_prompt_token = zeros(), .answer = zeros()};
  for (const AnalysisBatch& batch : batches) {
    model::PlannedForward forward(batch.batch, model.adapter.get(), model.scale);
    SpanMassRecorder recorder(forward.context().self_attention, batch, sums);
    forward.context().self_attention = &recorder;
    run(model, batch, forward.context());
  }
  const auto rows = static_cast<double>(count_rows(batches));
  return {.last_prompt_token = sums.last_prompt_token / rows, .answer = sums.answer / rows};
}

BlockMeasures measure_blocks(const StudiedModel& model, std::span<const AnalysisBatch> batches,
                             size_t examples) {
  const at::NoGradGuard no_grad;
  BlockMeasures measures;
  for (const int64_t layer : model.blocks()) measures.activity[layer] = {};
  for (const AnalysisBatch& batch : batches) {
    model::PlannedForward forward(batch.batch, model.adapter.get(), model.scale);
    BlockRecorder recorder(batch, model.scale, examples, measures);
    for (model::AdapterGroup& group : forward.context().adapters) recorder.watch(group);
    run(model, batch, forward.context());
  }
  const auto rows = static_cast<double>(count_rows(batches));
  for (auto& [layer, activity] : measures.activity) {
    activity.attention_ratio /= rows;
    activity.mlp_ratio /= rows;
    for (double& focus : activity.focus) focus /= rows;
  }
  return measures;
}

}  // namespace calyrex::study
