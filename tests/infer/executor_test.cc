// The paged, chunked, batched forward of the engine against the whole-batch forward of the model layer (which
// is compared with PyTorch in tests/model), and against PyTorch's logits directly.
#include <algorithm>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "calyrex/infer/model_executor.h"
#include "tests/infer/driver.h"
#include "tests/model/tiny_models.h"
#include "tests/tolerances.h"

namespace calyrex::infer {
namespace {

using model::TinyModel;

void expect_close(const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const double scale = expected.abs().max().item<double>();
  EXPECT_LE((actual - expected).abs().max().item<double>() / scale, tolerance::kFloat32Network) << what;
}

struct Case {
  std::string model;
  PagedAttention::Method method;
};

class ExecutorTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    tiny_ = TinyModel::open(GetParam().model);
    driver_ = std::make_unique<Driver>(
        tiny_, std::make_unique<ModelExecutor>(tiny_.source, Driver::options(), GetParam().method));
  }

  /// Logits of every row of one sequence, by the whole-batch forward.
  at::Tensor full(const model::SequenceInput& input, const Choice& choice) {
    const at::NoGradGuard no_grad;
    const auto batch = model::pack({&input, 1}, tiny_.decoder->config().vocab_size, at::kCPU);
    const auto adapter =
        choice.adapter.empty() ? nullptr : tiny_.adapter(choice.adapter, model::AdapterUse::kServe);
    const model::PlannedForward forward(batch, adapter.get(), choice.scale);
    const at::Tensor hidden = tiny_.decoder->run_layers(
        tiny_.decoder->embed(batch.token_ids), 0, tiny_.decoder->config().num_layers, forward.context());
    return tiny_.decoder->logits(tiny_.decoder->final_norm(hidden));
  }

  TinyModel tiny_;
  std::unique_ptr<Driver> driver_;
};

TEST_P(ExecutorTest, DecodingEqualsTheFullForward) {
  for (const Choice& choice : choices(GetParam().model)) {
    for (const model::SequenceInput& input : tiny_.sequences) {
      const at::Tensor expected = full(input, choice);
      for (const int64_t first : {1, 9}) {
        Sequence& sequence = driver_->add(input, choice);
        expect_close(driver_->decode_all(sequence, first), expected.slice(0, first - 1),
                     choice.adapter + " from " + std::to_string(first));
      }
    }
  }
}

TEST_P(ExecutorTest, ChunksEqualTheFullForward) {
  for (const Choice& choice : choices(GetParam().model)) {
    for (const model::SequenceInput& input : tiny_.sequences) {
      const at::Tensor expected = full(input, choice)[-1];
      // Every boundary in turn meets the spans' ends; 5 and 7 are the smallest chunks the fused attention
      // takes.
      for (const int64_t chunk : {1, 2, 3, 5, 6, 7, 8, 11, 13, 16, 17, 100}) {
        Sequence& sequence = driver_->add(input, choice);
        expect_close(driver_->prefill(sequence, chunk), expected,
                     choice.adapter + " in chunks of " + std::to_string(chunk));
      }
    }
  }
}

TEST_P(ExecutorTest, BaseEqualsPyTorch) {
  Sequence& sequence = driver_->add(tiny_.sequences.back(), {});
  expect_close(driver_->decode_all(sequence, 1), tiny_.golden().floats("logits_of_last_sequence"), "logits");
}

TEST_P(ExecutorTest, MixedAdaptersInOneBatchEqualSeparateRuns) {
  // Different adapters, scales, lengths and phases (chunks of 6, so that decoding and prefill meet) in every
  // step.
  std::vector<Sequence*> sequences;
  std::vector<at::Tensor> expected;
  for (const Choice& choice : choices(GetParam().model)) {
    for (const model::SequenceInput& input : tiny_.sequences) {
      sequences.push_back(&driver_->add(input, choice));
      expected.push_back(full(input, choice)[-1]);
    }
  }
  std::map<const Sequence*, at::Tensor> results;
  while (results.size() < sequences.size()) {
    std::vector<Sequence*> running;
    for (Sequence* sequence : sequences) {
      if (sequence->computed < sequence->length()) running.push_back(sequence);
    }
    std::vector<const Sequence*> complete;
    for (const Sequence* sequence : running) {
      if (sequence->length() - sequence->computed <= 6) complete.push_back(sequence);
    }
    const std::vector<at::Tensor> rows = driver_->step(running, 6);
    ASSERT_EQ(rows.size(), complete.size());
    for (size_t i = 0; i < rows.size(); ++i) results[complete[i]] = rows[i];
  }
  for (size_t i = 0; i < sequences.size(); ++i) {
    expect_close(results[sequences[i]], expected[i], "sequence " + std::to_string(i));
  }
}

TEST_P(ExecutorTest, ForgottenSequencesAreComputedAnewTheSame) {
  const std::string adapter = model::golden_adapters(GetParam().model).front();
  const model::SequenceInput& input = tiny_.sequences.back();
  Sequence& sequence = driver_->add(input, {adapter, 1.0});
  const at::Tensor first = driver_->prefill(sequence, 7);
  driver_->executor().forget(sequence);
  sequence.computed = 0;
  expect_close(driver_->prefill(sequence, 100), first, "anew");
}

TEST_P(ExecutorTest, ScoresEqualTheFullForward) {
  for (const Choice& choice : choices(GetParam().model)) {
    std::vector<ScoreItem> items;
    for (const model::SequenceInput& input : tiny_.sequences) {
      items.push_back({.token_ids = input.token_ids,
                       .system_spans = input.system_spans,
                       .adapter = choice.adapter.empty() ? nullptr : driver_->adapter(choice.adapter),
                       .scale = choice.scale,
                       .score_from = 3});
    }
    std::vector<const ScoreItem*> pointers;
    for (const ScoreItem& item : items) pointers.push_back(&item);
    const std::vector<TokenScores> scores = driver_->executor().score(pointers);
    ASSERT_EQ(scores.size(), items.size());
    for (size_t n = 0; n < items.size(); ++n) {
      const at::Tensor logprobs = at::log_softmax(full(tiny_.sequences[n], choice), 1);
      const auto& ids = items[n].token_ids;
      ASSERT_EQ(scores[n].logprobs.size(), ids.size() - 3);
      for (size_t i = 3; i < ids.size(); ++i) {
        const at::Tensor row = logprobs[static_cast<int64_t>(i) - 1];
        EXPECT_NEAR(scores[n].logprobs[i - 3], row[ids[i]].item<double>(), 1e-4);
        EXPECT_EQ(scores[n].greedy[i - 3], row.argmax().item<int64_t>() == ids[i]);
      }
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* name : {"llama", "qwen2", "qwen3", "mistral"}) {
    all.push_back({name, PagedAttention::Method::kKernels});
    all.push_back({name, PagedAttention::Method::kPlain});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, ExecutorTest, testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.model + (info.param.method == PagedAttention::Method::kPlain ? "_plain" : "_kernels");
});

}  // namespace
}  // namespace calyrex::infer
