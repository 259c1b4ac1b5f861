#include "calyrex/study/analysis_batch.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

namespace calyrex::study {
namespace {

AnalysisBatch make_batch(std::span<const AnalysisRow> rows, const model::Decoder& decoder) {
  AnalysisBatch result{.rows = rows, .batch = {}};
  std::vector<model::SequenceInput> inputs;
  int64_t begin = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const AnalysisRow& row = rows[i];
    inputs.push_back({.token_ids = row.token_ids, .system_spans = row.system_spans});
    result.last.push_back(begin + row.last_prompt_token());
    for (int64_t token = row.answer.begin; token < row.answer.end; ++token) {
      result.read.push_back(begin + token - 1);
      result.targets.push_back(row.token_ids[static_cast<size_t>(token)]);
      result.owner.push_back(i);
    }
    begin += static_cast<int64_t>(row.token_ids.size());
  }
  result.batch = model::pack(inputs, decoder.config().vocab_size, decoder.device());
  return result;
}

AnalysisBatch make_batch_without_system(std::span<const AnalysisRow> rows, const model::Decoder& decoder) {
  AnalysisBatch result{.rows = rows, .batch = {}};
  std::vector<model::SequenceInput> inputs;
  int64_t end = 0;
  for (const AnalysisRow& row : rows) {
    inputs.push_back({.token_ids = row.without_system_ids, .system_spans = {}});
    end += static_cast<int64_t>(row.without_system_ids.size());
    result.last.push_back(end - 1);
  }
  result.batch = model::pack(inputs, decoder.config().vocab_size, decoder.device());
  return result;
}

template <typename Make>
std::vector<AnalysisBatch> split_rows(std::span<const AnalysisRow> rows, int64_t batch_rows,
                                      const Make& make) {
  std::vector<AnalysisBatch> batches;
  for (size_t begin = 0; begin < rows.size(); begin += static_cast<size_t>(batch_rows)) {
    batches.push_back(
        make(rows.subspan(begin, std::min(static_cast<size_t>(batch_rows), rows.size() - begin))));
  }
  return batches;
}

}  // namespace

at::Tensor index_tensor(std::span<const int64_t> values, at::Device device) {
  return at::tensor(at::ArrayRef<int64_t>(values.data(), values.size()), at::kLong).to(device);
}

std::vector<int64_t> StudiedModel::blocks() const {
  if (adapter == nullptr || scale == 0.0 || adapter->works_inside_layers()) return {};
  return adapter->config().placement;
}

std::vector<AnalysisBatch> make_batches(std::span<const AnalysisRow> rows, int64_t batch_rows,
                                        const model::Decoder& decoder) {
  return split_rows(rows, batch_rows, [&](auto part) { return make_batch(part, decoder); });
}

std::vector<AnalysisBatch> make_batches_without_system(std::span<const AnalysisRow> rows, int64_t batch_rows,
                                                       const model::Decoder& decoder) {
  return split_rows(rows, batch_rows, [&](auto part) { return make_batch_without_system(part, decoder); });
}

std::vector<at::Tensor> last_states(const StudiedModel& model, std::span<const AnalysisBatch> batches) {
  const at::NoGradGuard no_grad;
  const int64_t layers = model.decoder->config().num_layers;
  std::vector<std::vector<at::Tensor>> parts(static_cast<size_t>(layers) + 1);
  for (const AnalysisBatch& batch : batches) {
    model::PlannedForward forward(batch.batch, model.adapter.get(), model.scale);
    const at::Tensor rows = index_tensor(batch.last, model.decoder->device());
    const auto keep = [&](int64_t index, const at::Tensor& hidden) {
      parts[static_cast<size_t>(index)].push_back(hidden.index_select(0, rows).cpu());
    };
    forward.context().on_layer = [&](int64_t layer, const at::Tensor& hidden) { keep(layer + 1, hidden); };
    at::Tensor hidden = model.decoder->embed(batch.batch.token_ids);
    keep(0, hidden);
    model.decoder->run_layers(std::move(hidden), 0, layers, forward.context());
  }
  std::vector<at::Tensor> states;
  for (const auto& part : parts) states.push_back(at::cat(part));
  return states;
}

}  // namespace calyrex::study
