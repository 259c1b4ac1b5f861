// Sequences over an executor without an engine, for the tests of executors.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "calyrex/infer/core/executor.h"
#include "calyrex/lm/local_model.h"
#include "tests/model/tiny_models.h"

namespace calyrex::infer {

/// An adapter of the golden models and its strength.
struct Choice {
  std::string adapter;  // empty: base
  double scale = 1.0;
};

/// Sequences over an executor, without a scheduler: a test says which tokens a step computes.
class Driver {
 public:
  Driver(const model::TinyModel& tiny, std::unique_ptr<Executor> executor)
      : tiny_(tiny), executor_(std::move(executor)), pool_(executor_->num_pages()) {}

  /// Float32 where nothing else is said, and a small cache.
  static lm::LocalModelOptions options() {
    lm::LocalModelOptions options;
    options.dtype = lm::Precision::kFloat32;
    options.device = "cpu";
    options.cache_gib = 0.01;
    return options;
  }

  Executor& executor() { return *executor_; }

  Sequence& add(const model::SequenceInput& input, const Choice& choice) {
    Sequence& sequence = sequences_.emplace_back();
    sequence.id = sequences_.size();
    sequence.token_ids = input.token_ids;
    sequence.system_spans = input.system_spans;
    sequence.scale = choice.scale;
    if (!choice.adapter.empty()) sequence.adapter = adapter(choice.adapter);
    return sequence;
  }

  std::shared_ptr<const ServedAdapter> adapter(const std::string& name) {
    auto& loaded = adapters_[name];
    if (loaded == nullptr) {
      loaded = executor_->load_adapter(weights::open_adapter("tests/golden/model/" + tiny_.name + "." + name,
                                                             *tiny_.source, weights::BaseMismatch::kReject));
    }
    return loaded;
  }

  /// Computes up to `chunk` further tokens of each sequence in one step. Rows of those that are complete, in
  /// order.
  std::vector<at::Tensor> step(const std::vector<Sequence*>& sequences, int64_t chunk) {
    std::vector<StepItem> items;
    for (Sequence* sequence : sequences) {
      const int64_t count = std::min(chunk, sequence->length() - sequence->computed);
      const int64_t pages =
          (sequence->computed + count + executor_->page_size() - 1) / executor_->page_size();
      EXPECT_TRUE(pool_.allocate(pages - static_cast<int64_t>(sequence->pages.size()), sequence->pages));
      items.push_back({.sequence = sequence, .begin = sequence->computed, .count = count});
    }
    std::vector<at::Tensor> rows;
    for (const LogitsRow& row : executor_->step(items)) {
      rows.push_back(at::tensor(at::ArrayRef<float>(row.logits.data(), row.logits.size())));
      EXPECT_EQ(row.best, rows.back().argmax().item<int64_t>());
      EXPECT_NEAR(row.log_sum_exp, rows.back().logsumexp(0).item<double>(), 1e-5);
    }
    for (const StepItem& item : items) const_cast<Sequence*>(item.sequence)->computed += item.count;
    return rows;
  }

  /// Logits after every position, as decoding sees them: one more token a step.
  at::Tensor decode_all(Sequence& sequence, int64_t first_chunk) {
    const std::vector<TokenId> ids = sequence.token_ids;
    std::vector<at::Tensor> rows;
    for (int64_t length = first_chunk; length <= static_cast<int64_t>(ids.size()); ++length) {
      sequence.token_ids.assign(ids.begin(), ids.begin() + length);
      rows.push_back(step({&sequence}, length - sequence.computed).at(0));
    }
    return at::stack(rows);
  }

  /// Logits after the last position, computed in chunks.
  at::Tensor prefill(Sequence& sequence, int64_t chunk) {
    std::vector<at::Tensor> rows;
    while (rows.empty()) rows = step({&sequence}, chunk);
    return rows.at(0);
  }

 private:
  const model::TinyModel& tiny_;
  std::unique_ptr<Executor> executor_;
  PagePool pool_;
  std::deque<Sequence> sequences_;
  std::map<std::string, std::shared_ptr<const ServedAdapter>> adapters_;
};

/// The base model, and every golden adapter at two strengths.
inline std::vector<Choice> choices(const std::string& model) {
  std::vector<Choice> all = {{}};
  for (const std::string& name : model::golden_adapters(model)) {
    all.push_back({name, 1.0});
    all.push_back({name, 0.5});
  }
  return all;
}

}  // namespace calyrex::infer
