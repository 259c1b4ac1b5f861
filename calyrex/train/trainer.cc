#include "calyrex/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "calyrex/base/error.h"
#include "calyrex/model/device.h"
#include "calyrex/train/head_loss.h"
#include "calyrex/train/prefix_cache.h"

namespace calyrex::train {
namespace {

/// The tokens that the loss depends on: all before the last label.
std::vector<TokenId> read_tokens(const TrainingRow& row) {
  const auto count = static_cast<std::ptrdiff_t>(row.label_spans.back().end - 1);
  return {row.token_ids.begin(), row.token_ids.begin() + count};
}

TokenSpans read_spans(const TrainingRow& row) {
  const int64_t end = row.label_spans.back().end - 1;
  TokenSpans spans;
  for (const TokenSpan& span : row.system_spans) {
    if (span.begin < end) spans.push_back({.begin = span.begin, .end = std::min(span.end, end)});
  }
  return spans;
}

/// oneDNN compiles a product for each number of rows. With this multiple a step mostly meets numbers of
/// earlier steps, and carries a few rows more.
constexpr int64_t kRowMultiple = 16;

int64_t row_multiple(const model::Decoder& decoder) {
  return decoder.device().is_cpu() && decoder.dtype() == at::kBFloat16 ? kRowMultiple : 1;
}

model::RaggedBatch pack_rows(const RowPointers& rows, const model::Decoder& decoder, int64_t multiple = 1) {
  std::vector<model::SequenceInput> sequences;
  for (const TrainingRow* row : rows) {
    // A row that gives a label is the sequence's own.
    sequences.push_back({.token_ids = read_tokens(*row),
                         .system_spans = read_spans(*row),
                         .share_limit = row->label_spans.front().begin - 1});
  }
  return model::pack(sequences, decoder.config().vocab_size, decoder.device(), multiple);
}

/// Batch rows whose next token is a label, and those labels.
struct LabelRows {
  std::vector<int64_t> rows;
  at::Tensor targets;  // [label tokens] int64
};

LabelRows label_rows(const RowPointers& rows, const model::RaggedBatch& batch) {
  std::vector<int64_t> indices, targets;
  for (size_t n = 0; n < rows.size(); ++n) {
    for (const TokenSpan& span : rows[n]->label_spans) {
      for (int64_t token = span.begin; token < span.end; ++token) {
        indices.push_back(batch.sequences[n].row(token - 1));
        targets.push_back(rows[n]->token_ids[static_cast<size_t>(token)]);
      }
    }
  }
  return {.rows = std::move(indices), .targets = at::tensor(targets, at::kLong).to(batch.token_ids.device())};
}

int64_t count_label_tokens(const RowPointers& rows) {
  int64_t count = 0;
  for (const TrainingRow* row : rows) count += row->num_label_tokens();
  return count;
}

/// "a.jsonl:3, a.jsonl:9 and 4 more"
std::string row_names(const RowPointers& rows) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(rows.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + rows[i]->id;
  if (rows.size() > kShown) text += fmt::format(" and {} more", rows.size() - kShown);
  return text;
}

constexpr std::string_view kDivergedRemedy = "the last checkpoint is kept; try a lower train.learning_rate";

}  // namespace

int64_t default_micro_batch_tokens(const weights::ModelConfig& backbone) {
  // One activation tensor of the MLP (float32) is held to this size; several of them live at once in each
  // trained layer.
  constexpr int64_t kActivationBytes = int64_t{12} << 20;
  constexpr int64_t kMinTokens = 256, kMaxTokens = 8192, kGrain = 256;
  const int64_t token_bytes = 4 * std::max(backbone.intermediate_size, backbone.hidden_size);
  const int64_t tokens = kActivationBytes / token_bytes / kGrain * kGrain;
  return std::clamp(tokens, kMinTokens, kMaxTokens);
}

int64_t prefix_cache_layer(const model::Adapter& adapter) {
  const int64_t first = adapter.first_layer();
  return adapter.works_inside_layers() || adapter.reads_layer_input(first) ? first - 1 : first;
}

Trainer::Trainer(std::shared_ptr<const model::Decoder> decoder, std::shared_ptr<model::Adapter> adapter,
                 const TrainSettings& settings)
    : decoder_(std::move(decoder)),
      adapter_(std::move(adapter)),
      settings_(settings),
      micro_batch_tokens_(
          settings.micro_batch_tokens.value_or(default_micro_batch_tokens(decoder_->config()))),
      optimizer_(adapter_, settings) {}

std::vector<RowPointers> Trainer::split(const RowPointers& rows) const {
  std::vector<RowPointers> batches;
  int64_t tokens = 0;
  for (const TrainingRow* row : rows) {
    if (batches.empty() || tokens + row->num_tokens() > micro_batch_tokens_) {
      batches.emplace_back();
      tokens = 0;
    }
    batches.back().push_back(row);
    tokens += row->num_tokens();
  }
  return batches;
}

at::Tensor Trainer::row_states(const TrainingRow& row) {
  const std::vector<TokenId> token_ids = read_tokens(row);
  const int64_t width = decoder_->config().hidden_size;
  at::Tensor states = at::empty({static_cast<int64_t>(token_ids.size()), width}, at::kBFloat16);
  const std::span<std::byte> bytes(static_cast<std::byte*>(states.mutable_data_ptr()), states.nbytes());
  if (cache_->load(token_ids, bytes)) return states;
  const model::RaggedBatch batch = pack_rows({&row}, *decoder_);
  model::PlannedForward planned(batch, /*adapter=*/nullptr);
  const at::Tensor hidden =
      decoder_->run_layers(decoder_->embed(batch.token_ids), 0, cache_->layer() + 1, planned.context());
  states.copy_(hidden);
  cache_->store(token_ids, bytes);
  return states;
}

at::Tensor Trainer::cached_states(const RowPointers& rows, const model::RaggedBatch& batch) {
  const at::Tensor hidden = at::zeros({batch.num_rows(), decoder_->config().hidden_size}, at::kFloat);
  for (size_t n = 0; n < rows.size(); ++n) {
    const model::RaggedBatch::Sequence& sequence = batch.sequences[n];
    const at::Tensor own = row_states(*rows[n]).narrow(0, sequence.num_shared(), sequence.num_own());
    hidden.narrow(0, sequence.begin, sequence.num_own()).copy_(own);
  }
  return hidden.to(decoder_->device());
}

at::Tensor Trainer::micro_batch_loss(const RowPointers& rows, double factor) {
  const model::RaggedBatch batch = pack_rows(rows, *decoder_, row_multiple(*decoder_));
  model::PlannedForward planned(batch, adapter_.get());
  const LabelRows labels = label_rows(rows, batch);
  const at::Tensor read = planned.narrow_to(labels.rows);
  const model::ForwardContext& context = planned.context();
  const int64_t first = adapter_->first_layer(), num_layers = decoder_->config().num_layers;
  // The embedding takes part in autograd where it is trained itself.
  at::Tensor hidden = cache_ == nullptr ? decoder_->embed(batch.token_ids) : cached_states(rows, batch);
  const int64_t next = cache_ == nullptr ? 0 : cache_->layer() + 1;
  at::Tensor layer_input;
  {
    const at::NoGradGuard no_grad;
    if (adapter_->works_inside_layers()) {
      hidden = decoder_->run_layers(std::move(hidden), next, first, context);
    } else if (next <= first) {
      hidden = decoder_->run_layers(std::move(hidden), next, first, context);
      if (adapter_->reads_layer_input(first)) layer_input = hidden.clone();
      hidden = decoder_->run_layer(std::move(hidden), first, context);
    }
  }
  // What was kept behind the last layer is of all rows.
  if (next == num_layers && context.output_rows.defined()) {
    hidden = model::gather_rows(hidden, context.output_rows);
  }
  int64_t trained = first;
  if (!adapter_->works_inside_layers()) {
    hidden = decoder_->run_slots(first, layer_input, std::move(hidden), context);
    ++trained;
  }
  hidden = decoder_->run_layers(std::move(hidden), trained, num_layers, context);
  const at::Tensor normed = decoder_->final_norm(model::gather_rows(hidden, read));
  return head_loss(*decoder_, normed, labels.targets, factor);
}

std::optional<StepResult> Trainer::accumulate(const RowPointers& rows, int64_t step,
                                              const std::function<bool()>& should_stop) {
  return model::translate_torch_errors(
      fmt::format("training step {}", step), [&]() -> std::optional<StepResult> {
        StepResult result;
        result.label_tokens = count_label_tokens(rows);
        const double factor = 1.0 / static_cast<double>(result.label_tokens);
        optimizer_.clear_gradients();
        for (const RowPointers& micro_batch : split(rows)) {
          if (should_stop()) {
            optimizer_.clear_gradients();
            return std::nullopt;
          }
          const at::Tensor loss = micro_batch_loss(micro_batch, factor);
          const auto value = loss.item<double>();
          if (!std::isfinite(value)) {
            fail(ErrorCode::kInvalidArgument, "step {}: the loss of rows {} is not finite ({}); {}", step,
                 row_names(micro_batch), value, kDivergedRemedy);
          }
          result.loss += value;
          // Without spans and without MLP sublayers nothing trained took part.
          if (loss.requires_grad()) loss.backward();
          for (const TrainingRow* row : micro_batch) result.tokens += row->num_tokens();
        }
        result.norms = gradient_norms(*adapter_);
        if (!std::isfinite(result.norms.total)) {
          fail(ErrorCode::kInvalidArgument, "step {}: the gradient of {} is not finite (rows {}); {}", step,
               result.norms.non_finite, row_names(rows), kDivergedRemedy);
        }
        return result;
      });
}

void Trainer::update(const StepResult& result, double lr_factor) {
  // torch.nn.utils.clip_grad_norm_ has the same small number in the denominator.
  constexpr double kClipEpsilon = 1e-6;
  double scale = 1.0;
  if (settings_.grad_clip > 0.0)
    scale = std::min(1.0, settings_.grad_clip / (result.norms.total + kClipEpsilon));
  model::translate_torch_errors("optimiser step", [&] { optimizer_.step(lr_factor, scale); });
}

std::optional<double> Trainer::evaluate(const RowPointers& rows, const std::function<bool()>& should_stop) {
  return model::translate_torch_errors("evaluation loss", [&]() -> std::optional<double> {
    const at::NoGradGuard no_grad;
    const double factor = 1.0 / static_cast<double>(count_label_tokens(rows));
    double loss = 0.0;
    for (const RowPointers& micro_batch : split(rows)) {
      if (should_stop()) return std::nullopt;
      loss += micro_batch_loss(micro_batch, factor).item<double>();
    }
    return loss;
  });
}

}  // namespace calyrex::train
