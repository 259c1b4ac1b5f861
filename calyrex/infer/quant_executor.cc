#include "calyrex/infer/quant_executor.h"

#include <ATen/Parallel.h>

#include "calyrex/base/error.h"
#include "calyrex/infer/quant_batch.h"
#include "calyrex/model/device.h"

namespace calyrex::infer {
namespace {

/// Whether sequences of this adapter (null: of the base model) run on packed weights.
bool is_packed(const std::shared_ptr<const ServedAdapter>& adapter) {
  return adapter == nullptr || dynamic_cast<const QuantAdapter*>(adapter.get()) != nullptr;
}

/// The same for a step: at strength 0 any adapter is the base model.
bool runs_packed(const Sequence& sequence) { return sequence.scale == 0.0 || is_packed(sequence.adapter); }

}  // namespace

QuantExecutor::QuantExecutor(std::shared_ptr<const weights::ModelSource> source,
                             const lm::LocalModelOptions& options)
    : source_(std::move(source)), options_(options) {
  model::translate_torch_errors("opening the engine", [&] {
    network_ = QuantNetwork::load(source_);
    cache_ = make_cache(source_->config(), options_, at::kBFloat16, at::kCPU);
    runner_ = std::make_unique<QuantRunner>(*network_, *cache_);
  });
}

int64_t QuantExecutor::num_parameters() const {
  int64_t total = 0;
  for (const weights::TensorView& tensor : source_->tensors()) total += tensor.num_values();
  return total;
}

std::vector<LogitsRow> QuantExecutor::step(std::span<const StepItem> items) {
  return model::translate_torch_errors("running the model", [&] {
    std::vector<StepItem> packed, others;
    for (const StepItem& item : items) (runs_packed(*item.sequence) ? packed : others).push_back(item);
    std::vector<LogitsRow> packed_rows, other_rows;
    if (!packed.empty()) packed_rows = runner_->run(QuantBatch(packed, page_size()));
    if (others.empty()) return packed_rows;
    other_rows = model().step(others);
    std::vector<LogitsRow> rows;
    auto next_packed = packed_rows.begin();
    auto next_other = other_rows.begin();
    for (const StepItem& item : items) {
      if (item.completes()) rows.push_back(runs_packed(*item.sequence) ? *next_packed++ : *next_other++);
    }
    return rows;
  });
}

int64_t QuantExecutor::resume(const Sequence& sequence, int64_t tokens) {
  if (!is_packed(sequence.adapter)) return model().resume(sequence, tokens);
  const auto* adapter = static_cast<const QuantAdapter*>(sequence.adapter.get());
  return adapter != nullptr && adapter->spans != nullptr ? adapter->spans->resume(sequence, tokens) : tokens;
}

void QuantExecutor::forget(const Sequence& sequence) {
  if (!is_packed(sequence.adapter)) return model().forget(sequence);
  const auto* adapter = static_cast<const QuantAdapter*>(sequence.adapter.get());
  if (adapter != nullptr && adapter->spans != nullptr) adapter->spans->forget(sequence);
}

ModelExecutor& QuantExecutor::model() {
  if (model_ == nullptr) {
    lm::LocalModelOptions options = options_;
    options.device = "cpu";
    // Its pages have the same numbers as those here, and may be twice as large.
    options.cache_gib *= 2.0;
    model_ = std::make_unique<ModelExecutor>(source_, options);
    CALYREX_CHECK(model_->num_pages() >= num_pages(), "{} pages of {}", model_->num_pages(), num_pages());
  }
  return *model_;
}

std::vector<TokenScores> QuantExecutor::score(std::span<const ScoreItem* const> items) {
  const std::shared_ptr<const ServedAdapter>& served = items.front()->adapter;
  if (served == nullptr || !is_packed(served)) return model().score(items);
  const auto* adapter = static_cast<const QuantAdapter*>(served.get());
  if (adapter->for_scoring == nullptr) adapter->for_scoring = model().load_adapter(adapter->folder);
  std::vector<ScoreItem> copies;
  std::vector<const ScoreItem*> pointers;
  copies.reserve(items.size());
  for (const ScoreItem* item : items) {
    copies.push_back(*item);
    copies.back().adapter = adapter->for_scoring;
    pointers.push_back(&copies.back());
  }
  return model().score(pointers);
}

std::shared_ptr<const ServedAdapter> QuantExecutor::load_adapter(const weights::AdapterFolder& folder) {
  return model::translate_torch_errors("loading an adapter", [&] {
    if (!can_pack(folder.config, source_->config())) return model().load_adapter(folder);
    return std::shared_ptr<const ServedAdapter>(load_quant_adapter(folder, page_size()));
  });
}

void QuantExecutor::parallel_for(int64_t count, const std::function<void(int64_t)>& f) {
  at::parallel_for(0, count, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

}  // namespace calyrex::infer
