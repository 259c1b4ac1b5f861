#include "calyrex/infer/model_executor.h"

#include <algorithm>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "calyrex/base/error.h"
#include "calyrex/infer/step_batch.h"
#include "calyrex/kernels/cross_entropy.h"
#include "calyrex/model/device.h"
#include "calyrex/model/ragged_batch.h"

namespace calyrex::infer {
namespace {

constexpr int64_t kPageSize = 16;
/// Rows of logits computed at a time while scoring: 64 MB for a vocabulary of 64,000.
constexpr int64_t kScoreRows = 256;

}  // namespace

std::unique_ptr<PagedCache> make_cache(const weights::ModelConfig& config,
                                       const lm::LocalModelOptions& options, at::ScalarType dtype,
                                       at::Device device) {
  if (options.max_batch_sequences < 1 || options.prefill_chunk_tokens < 1) {
    fail(ErrorCode::kInvalidArgument,
         "max_batch_sequences and prefill_chunk_tokens must be at least 1, got {} and {}",
         options.max_batch_sequences, options.prefill_chunk_tokens);
  }
  PagedCache::Shape shape{
      .layers = {}, .num_kv_heads = config.num_kv_heads, .head_dim = config.head_dim, .page_size = kPageSize};
  shape.layers.resize(static_cast<size_t>(config.num_layers));
  std::iota(shape.layers.begin(), shape.layers.end(), int64_t{0});
  const double pages =
      options.cache_gib * 1024.0 * 1024.0 * 1024.0 / static_cast<double>(shape.page_bytes(dtype));
  if (!(pages >= 1.0)) {
    fail(ErrorCode::kInvalidArgument, "a cache of {} GiB holds no page of {} bytes; raise cache_gib",
         options.cache_gib, shape.page_bytes(dtype));
  }
  const int64_t most = options.max_batch_sequences * ((config.max_positions + kPageSize - 1) / kPageSize);
  const auto count = static_cast<int64_t>(std::min(pages, static_cast<double>(most)));
  return std::make_unique<PagedCache>(std::move(shape), count, dtype, device);
}

ModelExecutor::ModelExecutor(std::shared_ptr<const weights::ModelSource> source,
                             const lm::LocalModelOptions& options, PagedAttention::Method method)
    : method_(method) {
  model::translate_torch_errors("opening the engine", [&] {
    const at::Device device = model::resolve_device(options.device);
    decoder_ = model::Decoder::load(*source, model::resolve_dtype(options.dtype, device), device);
    cache_ = make_cache(decoder_->config(), options, decoder_->dtype(), decoder_->device());
  });
}

std::string ModelExecutor::dtype() const { return std::string(model::dtype_text(decoder_->dtype())); }

std::vector<LogitsRow> ModelExecutor::step(std::span<const StepItem> items) {
  return model::translate_torch_errors("running the model", [&] {
    const at::NoGradGuard no_grad;
    const StepBatch batch(items, *cache_, method_);
    at::Tensor hidden = decoder_->embed(batch.token_ids());
    hidden = decoder_->run_layers(std::move(hidden), 0, decoder_->config().num_layers, batch.context());
    const std::vector<int64_t>& sampled = batch.sampled_rows();
    std::vector<LogitsRow> rows;
    if (sampled.empty()) return rows;
    hidden = hidden.index_select(0, at::tensor(sampled, at::kLong).to(hidden.device()));
    logits_ = decoder_->logits(decoder_->final_norm(hidden)).cpu().contiguous();

    const auto count = static_cast<int64_t>(sampled.size());
    const int64_t vocab = logits_.size(1);
    const auto [highest, best] = logits_.max(1);
    const at::Tensor targets = best.to(at::kInt);
    std::vector<float> logprobs(sampled.size());
    kernels::log_softmax_pick(logits_.const_data_ptr<float>(), targets.const_data_ptr<int32_t>(), count,
                              vocab, logprobs.data(), nullptr);
    for (int64_t i = 0; i < count; ++i) {
      const auto n = static_cast<size_t>(i);
      rows.push_back({.logits = {logits_.const_data_ptr<float>() + i * vocab, static_cast<size_t>(vocab)},
                      .best = targets.const_data_ptr<int32_t>()[i],
                      .log_sum_exp = double{highest.const_data_ptr<float>()[i]} - logprobs[n]});
    }
    return rows;
  });
}

int64_t ModelExecutor::resume(const Sequence& sequence, int64_t tokens) {
  const auto* blocks = static_cast<const LoadedBlocks*>(sequence.adapter.get());
  return blocks != nullptr && blocks->spans != nullptr ? blocks->spans->resume(sequence, tokens) : tokens;
}

void ModelExecutor::forget(const Sequence& sequence) {
  const auto* blocks = static_cast<const LoadedBlocks*>(sequence.adapter.get());
  if (blocks != nullptr && blocks->spans != nullptr) blocks->spans->forget(sequence);
}

std::vector<TokenScores> ModelExecutor::score(std::span<const ScoreItem* const> items) {
  return model::translate_torch_errors("scoring", [&] {
    const at::NoGradGuard no_grad;
    std::vector<model::SequenceInput> sequences;
    std::vector<int64_t> rows;
    std::vector<int32_t> targets;
    int64_t begin = 0;
    const ScoreItem* previous = nullptr;
    for (const ScoreItem* item : items) {
      const auto length = static_cast<int64_t>(item->token_ids.size());
      if (previous != nullptr && share_computation(*previous, *item)) {
        rows.push_back(rows.back());
        targets.push_back(item->token_ids.back());
        continue;
      }
      previous = item;
      sequences.push_back({.token_ids = item->token_ids, .system_spans = item->system_spans});
      for (int64_t i = item->score_from; i < length; ++i) {
        rows.push_back(begin + i - 1);
        targets.push_back(item->token_ids[static_cast<size_t>(i)]);
      }
      begin += length;
    }
    const model::RaggedBatch batch =
        model::pack(sequences, decoder_->config().vocab_size, decoder_->device());
    const auto* blocks = static_cast<const LoadedBlocks*>(items.front()->adapter.get());
    const model::PlannedForward forward(batch, blocks == nullptr ? nullptr : blocks->adapter.get(),
                                        items.front()->scale);
    at::Tensor hidden = decoder_->run_layers(decoder_->embed(batch.token_ids), 0,
                                             decoder_->config().num_layers, forward.context());
    hidden = decoder_->final_norm(hidden.index_select(0, at::tensor(rows, at::kLong).to(hidden.device())));

    const auto count = static_cast<int64_t>(rows.size());
    std::vector<float> logprobs(rows.size());
    std::vector<uint8_t> greedy(rows.size());
    for (int64_t done = 0; done < count; done += kScoreRows) {
      const int64_t size = std::min(kScoreRows, count - done);
      const at::Tensor logits = decoder_->logits(hidden.narrow(0, done, size)).cpu().contiguous();
      kernels::log_softmax_pick(logits.const_data_ptr<float>(), targets.data() + done, size, logits.size(1),
                                logprobs.data() + done, greedy.data() + done);
    }
    std::vector<TokenScores> scores;
    size_t next = 0;
    for (const ScoreItem* item : items) {
      const size_t scored = item->token_ids.size() - static_cast<size_t>(item->score_from);
      TokenScores& score = scores.emplace_back();
      score.logprobs.assign(logprobs.begin() + static_cast<ptrdiff_t>(next),
                            logprobs.begin() + static_cast<ptrdiff_t>(next + scored));
      for (size_t i = next; i < next + scored; ++i) score.greedy.push_back(greedy[i] != 0);
      next += scored;
    }
    return scores;
  });
}

std::shared_ptr<const ServedAdapter> ModelExecutor::load_adapter(const weights::AdapterFolder& folder) {
  return model::translate_torch_errors("loading an adapter", [&] {
    const at::NoGradGuard no_grad;
    auto blocks = std::make_shared<LoadedBlocks>();
    blocks->adapter = model::load_adapter(folder, decoder_->config(), decoder_->dtype(), decoder_->device(),
                                          model::AdapterUse::kServe);
    const weights::AdapterConfig& config = blocks->adapter->config();
    if (config.kind == weights::AdapterKind::kCal) {
      blocks->spans = std::make_unique<SpanStore>(PagedCache::Shape{.layers = config.placement,
                                                                    .num_kv_heads = config.cal.num_kv_heads,
                                                                    .head_dim = config.cal.head_dim,
                                                                    .page_size = kPageSize},
                                                  decoder_->dtype(), decoder_->device());
    }
    return std::shared_ptr<const ServedAdapter>(std::move(blocks));
  });
}

void ModelExecutor::parallel_for(int64_t count, const std::function<void(int64_t)>& f) {
  at::parallel_for(0, count, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

}  // namespace calyrex::infer
