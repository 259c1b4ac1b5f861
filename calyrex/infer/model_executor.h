// The part of the engine that computes: decoder, cache and adapters on one device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calyrex/infer/core/executor.h"
#include "calyrex/infer/paged_attention.h"
#include "calyrex/infer/paged_cache.h"
#include "calyrex/lm/local_model.h"
#include "calyrex/model/decoder.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::infer {

/// The cache of all layers that the options allow. kInvalidArgument when not even a page fits into it.
std::unique_ptr<PagedCache> make_cache(const weights::ModelConfig& config,
                                       const lm::LocalModelOptions& options, at::ScalarType dtype,
                                       at::Device device);

/// Torch's errors leave as Error.
class ModelExecutor final : public Executor {
 public:
  /// kInvalidArgument when not even a page fits into the cache that the options allow.
  ModelExecutor(std::shared_ptr<const weights::ModelSource> source, const lm::LocalModelOptions& options,
                PagedAttention::Method method = PagedAttention::Method::kKernels);

  int64_t num_pages() const override { return cache_->num_pages(); }
  int64_t page_size() const override { return cache_->shape().page_size; }
  int64_t num_parameters() const override { return decoder_->num_parameters(); }
  std::string dtype() const override;
  std::string device() const override { return decoder_->device().str(); }

  std::vector<LogitsRow> step(std::span<const StepItem> items) override;
  int64_t resume(const Sequence& sequence, int64_t tokens) override;
  void forget(const Sequence& sequence) override;
  std::vector<TokenScores> score(std::span<const ScoreItem* const> items) override;
  std::shared_ptr<const ServedAdapter> load_adapter(const weights::AdapterFolder& folder) override;
  void parallel_for(int64_t count, const std::function<void(int64_t)>& f) override;

 private:
  std::shared_ptr<const model::Decoder> decoder_;
  std::unique_ptr<PagedCache> cache_;
  PagedAttention::Method method_;
  at::Tensor logits_;  // [rows, vocab_size] float32 on the CPU: of the last step
};

}  // namespace calyrex::infer
