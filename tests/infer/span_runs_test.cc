// Which span tokens the queries of a chunk see, against the definition: query i sees key j if j lies in a
// span and j <= i (exclusive: j < i).
#include <gtest/gtest.h>

#include "calyrex/infer/step_batch.h"

namespace calyrex::infer {
namespace {

/// Keys seen by each position, from runs; 0 where no run covers it.
std::vector<int64_t> seen_by_runs(const std::vector<SpanRun>& runs, int64_t begin, int64_t end) {
  std::vector<int64_t> seen(static_cast<size_t>(end - begin), 0);
  for (const SpanRun& run : runs) {
    for (int64_t i = 0; i < run.count; ++i) {
      const int64_t position = run.begin + i;
      EXPECT_TRUE(position >= begin && position < end);
      EXPECT_EQ(seen[static_cast<size_t>(position - begin)], 0) << "covered twice";
      seen[static_cast<size_t>(position - begin)] = run.first_visible + (run.causal ? i : 0);
    }
  }
  return seen;
}

std::vector<int64_t> seen_by_definition(const TokenSpans& spans, int64_t begin, int64_t end, bool exclusive) {
  std::vector<int64_t> seen;
  for (int64_t i = begin; i < end; ++i) {
    int64_t count = 0;
    for (const TokenSpan& span : spans) {
      for (int64_t j = span.begin; j < span.end; ++j) count += j < i || (j == i && !exclusive) ? 1 : 0;
    }
    seen.push_back(count);
  }
  return seen;
}

TEST(SpanRuns, EveryChunkOfSeveralLayouts) {
  const std::vector<TokenSpans> layouts = {{},
                                           {{0, 1}},
                                           {{0, 12}},
                                           {{3, 5}},
                                           {{11, 12}},
                                           {{0, 2}, {2, 4}},
                                           {{1, 3}, {6, 7}, {9, 12}},
                                           {{2, 3}, {4, 5}}};
  for (const TokenSpans& spans : layouts) {
    for (const bool exclusive : {false, true}) {
      for (int64_t begin = 0; begin < 12; ++begin) {
        for (int64_t end = begin + 1; end <= 12; ++end) {
          const auto inclusion =
              exclusive ? weights::SelfInclusion::kExclusive : weights::SelfInclusion::kInclusive;
          EXPECT_EQ(seen_by_runs(span_runs(spans, begin, end, inclusion), begin, end),
                    seen_by_definition(spans, begin, end, exclusive))
              << "spans " << spans.size() << " chunk " << begin << " to " << end << " exclusive "
              << exclusive;
        }
      }
    }
  }
}

}  // namespace
}  // namespace calyrex::infer
