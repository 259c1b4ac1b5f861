// The part of the engine that computes with packed weights: generation on the CPU from quantised files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calyrex/infer/core/executor.h"
#include "calyrex/infer/model_executor.h"
#include "calyrex/infer/paged_cache.h"
#include "calyrex/infer/quant_adapter.h"
#include "calyrex/infer/quant_network.h"
#include "calyrex/infer/quant_runner.h"
#include "calyrex/lm/local_model.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::infer {

/// Steps run on QuantRunner. Scores, and sequences of adapters that it lacks, run on a ModelExecutor that is
/// opened when the first of them comes. Torch's errors leave as Error.
class QuantExecutor final : public Executor {
 public:
  /// The source is one that QuantNetwork::supports(). kInvalidArgument as ModelExecutor.
  QuantExecutor(std::shared_ptr<const weights::ModelSource> source, const lm::LocalModelOptions& options);

  int64_t num_pages() const override { return cache_->num_pages(); }
  int64_t page_size() const override { return cache_->shape().page_size; }
  int64_t num_parameters() const override;
  std::string dtype() const override { return network_->weight_type(); }
  std::string device() const override { return "cpu"; }

  std::vector<LogitsRow> step(std::span<const StepItem> items) override;
  int64_t resume(const Sequence& sequence, int64_t tokens) override;
  void forget(const Sequence& sequence) override;
  std::vector<TokenScores> score(std::span<const ScoreItem* const> items) override;
  std::shared_ptr<const ServedAdapter> load_adapter(const weights::AdapterFolder& folder) override;
  void parallel_for(int64_t count, const std::function<void(int64_t)>& f) override;

 private:
  ModelExecutor& model();

  std::shared_ptr<const weights::ModelSource> source_;
  lm::LocalModelOptions options_;
  std::shared_ptr<const QuantNetwork> network_;
  std::unique_ptr<PagedCache> cache_;
  std::unique_ptr<QuantRunner> runner_;
  std::unique_ptr<ModelExecutor> model_;
};

}  // namespace calyrex::infer
