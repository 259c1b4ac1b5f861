#include "calyrex/study/analysis_generate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "calyrex/study/analysis_attention.h"
#include "tests/study/study_support.h"

namespace calyrex::study {
namespace {

constexpr int64_t kNewTokens = 6;

/// One token after the other by whole forwards.
std::vector<TokenId> by_whole_forwards(const StudiedModel& model, model::SequenceInput input) {
  const at::NoGradGuard no_grad;
  std::vector<TokenId> answer;
  for (int64_t n = 0; n < kNewTokens; ++n) {
    const std::vector<model::SequenceInput> inputs = {input};
    const model::RaggedBatch batch = model::pack(inputs, model.decoder->config().vocab_size, at::kCPU);
    const model::PlannedForward forward(batch, model.adapter.get(), model.scale);
    const at::Tensor hidden = model.decoder->run_layers(
        model.decoder->embed(batch.token_ids), 0, model.decoder->config().num_layers, forward.context());
    const at::Tensor logits = model.decoder->logits(model.decoder->final_norm(hidden.slice(0, -1)));
    answer.push_back(static_cast<TokenId>(logits.argmax(1).item<int64_t>()));
    input.token_ids.push_back(answer.back());
  }
  return answer;
}

std::vector<model::SequenceInput> prompts_of(const TinyStudy& study) {
  return {study.prompt(0), study.prompt(1)};
}

TEST(GenerateGreedy, EqualsWholeForwards) {
  for (const char* name : {"default", "rope", "parallel_mlp", "lora_all"}) {
    const TinyStudy study(name);
    const auto prompts = prompts_of(study);
    const auto answers = generate_greedy(study.model, prompts, {.max_new_tokens = kNewTokens});
    for (size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(answers[i], by_whole_forwards(study.model, prompts[i])) << name << ", prompt " << i;
    }
  }
}

TEST(GenerateGreedy, PromptsWithAndWithoutSpansShareABatch) {
  const TinyStudy study;
  std::vector<model::SequenceInput> prompts = {study.prompt(0), study.tiny.sequences[0], study.prompt(1)};
  ASSERT_TRUE(prompts[1].system_spans.empty());
  const auto answers = generate_greedy(study.model, prompts, {.max_new_tokens = kNewTokens});
  for (size_t i = 0; i < prompts.size(); ++i)
    EXPECT_EQ(answers[i], by_whole_forwards(study.model, prompts[i]));
}

TEST(GenerateGreedy, StopsAtStopTokens) {
  const TinyStudy study;
  const auto prompts = prompts_of(study);
  const auto whole = generate_greedy(study.model, prompts, {.max_new_tokens = kNewTokens});
  const TokenId stop = whole[0][3];
  const auto cut = generate_greedy(study.model, prompts, {.max_new_tokens = kNewTokens, .stop_ids = {stop}});
  const auto first = std::find(whole[0].begin(), whole[0].end(), stop);
  EXPECT_EQ(cut[0], (std::vector<TokenId>{whole[0].begin(), first}));
}

TEST(GenerateGreedy, AllOffIsTheBase) {
  const TinyStudy study;
  const auto prompts = prompts_of(study);
  BlockSwitch off({{1, BlockSwitch::Part::kAttention},
                   {1, BlockSwitch::Part::kMlp},
                   {2, BlockSwitch::Part::kAttention},
                   {2, BlockSwitch::Part::kMlp}});
  const auto silent = generate_greedy(study.model, prompts, {.max_new_tokens = kNewTokens, .observer = &off});
  EXPECT_EQ(silent, generate_greedy(study.model.base(), prompts, {.max_new_tokens = kNewTokens}));
  EXPECT_NE(silent, generate_greedy(study.model, prompts, {.max_new_tokens = kNewTokens}));
}

TEST(SpanSwap, TheOwnSpanChangesNothing) {
  for (const char* name : {"default", "rope"}) {
    const TinyStudy study(name);
    const auto prompts = prompts_of(study);
    const SpanValues own = compute_span_values(study.model, prompts);
    EXPECT_EQ(own.lengths, (std::vector<int64_t>{5, 11}));
    const auto plain = generate_greedy(study.model, prompts, {.max_new_tokens = kNewTokens});
    EXPECT_EQ(generate_greedy(study.model, prompts, {.max_new_tokens = kNewTokens, .donors = &own}), plain)
        << name;
  }
}

TEST(SpanSwap, AnotherSpanTakesPart) {
  const TinyStudy study;
  const std::vector<model::SequenceInput> prompts = {study.prompt(0)}, others = {study.prompt(1)};
  const SpanValues donor = compute_span_values(study.model, others);
  const GenerateOptions options{.max_new_tokens = kNewTokens, .donors = &donor};
  const auto swapped = generate_greedy(study.model, prompts, options);
  EXPECT_NE(swapped, generate_greedy(study.model, prompts, {.max_new_tokens = kNewTokens}));
  // A prompt that holds the first tokens already is computed as a whole instead of step by step.
  for (size_t n = 1; n < swapped[0].size(); ++n) {
    std::vector<model::SequenceInput> longer = prompts;
    longer[0].token_ids.insert(longer[0].token_ids.end(), swapped[0].begin(),
                               swapped[0].begin() + static_cast<ptrdiff_t>(n));
    EXPECT_EQ(generate_greedy(study.model, longer, options)[0][0], swapped[0][n]);
  }
}

}  // namespace
}  // namespace calyrex::study
