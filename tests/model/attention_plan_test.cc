#include "calyrex/model/attention_plan.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"

namespace calyrex::model {
namespace {

using testing::ElementsAre;
using weights::SelfInclusion;

RaggedBatch batch_of(std::vector<SequenceInput> sequences) {
  return pack(sequences, /*vocab_size=*/100, at::kCPU);
}

SequenceInput sequence(int64_t length, TokenSpans spans) {
  return {.token_ids = std::vector<TokenId>(static_cast<size_t>(length), 1),
          .system_spans = std::move(spans)};
}

TEST(AttentionPlan, SelfAttentionIsOneCausalSegmentASequence) {
  const AttentionPlan plan = self_attention_plan(batch_of({sequence(3, {}), sequence(2, {})}));
  EXPECT_THAT(plan.segments,
              ElementsAre(AttentionSegment{0, 3, 0, 3, true}, AttentionSegment{3, 5, 3, 5, true}));
}

TEST(FillUp, TakesTheLastRowsThatAreFree) {
  EXPECT_THAT(fill_up({0, 7, 3}, 4, 9, {8}), ElementsAre(0, 7, 3, 6));
  EXPECT_THAT(fill_up({0, 1, 2, 3}, 4, 9), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(fill_up({}, 4, 9), testing::IsEmpty());
  EXPECT_THAT(fill_up({2}, 4, 3), ElementsAre(2, 1, 0));  // there are no more
}

TEST(AttentionPlan, ThreeZonesOfOneSpan) {
  const CalPlan plan = cal_plan(batch_of({sequence(6, {{1, 3}})}), SelfInclusion::kInclusive);
  EXPECT_THAT(plan.key_rows, ElementsAre(1, 2));
  EXPECT_THAT(plan.query_rows, ElementsAre(1, 2, 3, 4, 5));  // row 0 sees nothing
  EXPECT_THAT(plan.attention.segments,
              ElementsAre(AttentionSegment{0, 2, 0, 2, true}, AttentionSegment{2, 5, 0, 2, false}));
}

TEST(AttentionPlan, ExclusiveShiftsTheSpanByOne) {
  const CalPlan plan = cal_plan(batch_of({sequence(5, {{1, 4}})}), SelfInclusion::kExclusive);
  EXPECT_THAT(plan.key_rows, ElementsAre(1, 2, 3));
  EXPECT_THAT(plan.query_rows, ElementsAre(2, 3, 4));
  EXPECT_THAT(plan.attention.segments,
              ElementsAre(AttentionSegment{0, 2, 0, 2, true}, AttentionSegment{2, 3, 0, 3, false}));
}

TEST(AttentionPlan, SeveralSpansAreGathered) {
  const CalPlan plan = cal_plan(batch_of({sequence(8, {{0, 2}, {4, 5}})}), SelfInclusion::kInclusive);
  EXPECT_THAT(plan.key_rows, ElementsAre(0, 1, 4));
  EXPECT_THAT(plan.query_rows, ElementsAre(0, 1, 4, 2, 3, 5, 6, 7));
  EXPECT_THAT(plan.attention.segments,
              ElementsAre(AttentionSegment{0, 3, 0, 3, true}, AttentionSegment{3, 5, 0, 2, false},
                          AttentionSegment{5, 8, 0, 3, false}));
}

TEST(AttentionPlan, NoSpanNoPlan) {
  EXPECT_TRUE(cal_plan(batch_of({sequence(4, {})}), SelfInclusion::kInclusive).empty());
}

TEST(AttentionPlan, SpanAtTheEnd) {
  const CalPlan plan =
      cal_plan(batch_of({sequence(2, {}), sequence(3, {{2, 3}})}), SelfInclusion::kInclusive);
  EXPECT_THAT(plan.attention.segments, ElementsAre(AttentionSegment{0, 1, 0, 1, true}));
  EXPECT_THAT(plan.query_rows, ElementsAre(4));
}

TEST(NarrowPlan, KeepsReadRowsAndSpans) {
  const CalPlan plan =
      cal_plan(batch_of({sequence(6, {{1, 3}}), sequence(5, {{0, 2}})}), SelfInclusion::kInclusive);
  const auto narrowed = narrow_plan(plan, {4, 5, 9});
  ASSERT_TRUE(narrowed.has_value());
  EXPECT_THAT(narrowed->rows, ElementsAre(1, 2, 4, 5, 6, 7, 9));
  EXPECT_THAT(narrowed->read, ElementsAre(2, 3, 6));
  EXPECT_THAT(narrowed->plan.key_rows, ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(narrowed->plan.query_rows, ElementsAre(2, 3, 6));
  EXPECT_THAT(narrowed->plan.attention.segments,
              ElementsAre(AttentionSegment{0, 2, 0, 2, false}, AttentionSegment{2, 3, 2, 4, false}));
}

TEST(NarrowPlan, ReadRowsThatSeeNothingAreNoQueries) {
  const auto narrowed = narrow_plan({}, {0, 3});
  ASSERT_TRUE(narrowed.has_value());
  EXPECT_THAT(narrowed->rows, ElementsAre(0, 3));
  EXPECT_TRUE(narrowed->plan.empty());
}

TEST(NarrowPlan, AReadRowInsideASpanCannotBeTakenOut) {
  const CalPlan plan = cal_plan(batch_of({sequence(6, {{1, 3}})}), SelfInclusion::kInclusive);
  EXPECT_FALSE(narrow_plan(plan, {2, 5}).has_value());
}

SequenceInput of_tokens(std::vector<TokenId> token_ids, TokenSpans spans, int64_t share_limit) {
  return {.token_ids = std::move(token_ids), .system_spans = std::move(spans), .share_limit = share_limit};
}

TEST(SharedRows, SequencesThatBeginAlikeShareUpToTheLimit) {
  const RaggedBatch batch = batch_of({of_tokens({1, 2, 3, 4}, {{1, 3}}, 4),    //
                                      of_tokens({1, 2, 3, 5}, {{1, 3}}, 4),    // differs in the last token
                                      of_tokens({1, 2, 3, 4}, {{1, 3}}, 2),    // may share two tokens only
                                      of_tokens({1, 2, 3, 4}, {{2, 3}}, 4)});  // token 1 is of no span
  EXPECT_THAT(batch.sequences[0].shared_rows, ElementsAre());
  EXPECT_THAT(batch.sequences[1].shared_rows, ElementsAre(0, 1, 2));
  EXPECT_THAT(batch.sequences[2].shared_rows, ElementsAre(0, 1));
  EXPECT_THAT(batch.sequences[3].shared_rows, ElementsAre(0));
  EXPECT_EQ(batch.num_rows(), 4 + 1 + 2 + 3);
  EXPECT_EQ(batch.sequences[3].row(0), 0);
  EXPECT_EQ(batch.sequences[3].row(3), 9);
  EXPECT_THAT(std::vector<int64_t>(batch.positions.const_data_ptr<int64_t>(),
                                   batch.positions.const_data_ptr<int64_t>() + batch.num_rows()),
              ElementsAre(0, 1, 2, 3, 3, 2, 3, 1, 2, 3));
}

TEST(SharedRows, OtherFirstPositionsShareNothing) {
  SequenceInput later = of_tokens({1, 2}, {}, 2);
  later.first_position = 5;
  EXPECT_FALSE(batch_of({of_tokens({1, 2}, {}, 2), later}).shares_rows());
}

TEST(SharedRows, PlansNameTheSharedKeysAndSkipTheirQueries) {
  const RaggedBatch batch =
      batch_of({of_tokens({1, 2, 3, 4, 5}, {{1, 3}}, 5), of_tokens({1, 2, 9, 4}, {{1, 3}}, 4)});
  const AttentionPlan self = self_attention_plan(batch);
  EXPECT_THAT(self.key_rows, ElementsAre(0, 1, 2, 3, 4, 0, 1, 5, 6));
  EXPECT_THAT(self.segments,
              ElementsAre(AttentionSegment{0, 5, 0, 5, true}, AttentionSegment{3, 7, 5, 9, true, 2}));

  const CalPlan cal = cal_plan(batch, SelfInclusion::kInclusive);
  EXPECT_THAT(cal.key_rows, ElementsAre(1, 2, 5));
  EXPECT_THAT(cal.query_rows, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(cal.attention.key_rows, ElementsAre(0, 1, 0, 2));
  EXPECT_THAT(cal.attention.segments,
              ElementsAre(AttentionSegment{0, 2, 0, 2, true}, AttentionSegment{2, 4, 0, 2, false},
                          AttentionSegment{3, 5, 2, 4, true, 1}, AttentionSegment{5, 6, 2, 4, false}));
}

TEST(RaggedBatch, RefusesIdsOutsideTheVocabulary) {
  EXPECT_THROW(pack(std::vector<SequenceInput>{{.token_ids = {100}}}, 100, at::kCPU), Error);
  EXPECT_THROW(pack(std::vector<SequenceInput>{{.token_ids = {-1}}}, 100, at::kCPU), Error);
}

}  // namespace
}  // namespace calyrex::model
