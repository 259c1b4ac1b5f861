#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calyrex/eval/run/rehearsal.h"
#include "tests/eval/run_support.h"

namespace calyrex::eval::test {
namespace {

using testing::ElementsAre;

/// A task whose metrics are the scores of its samples.
class SharesTask final : public Task {
 public:
  SharesTask() {
    info_.name = "shares";
    info_.headline = {"first"};
  }
  const TaskInfo& info() const override { return info_; }
  Samples load(const LoadOptions&) const override {
    Samples samples;
    samples.push_back(std::make_unique<ScriptedSample>(
        "two turns and a score", "",
        [](std::span<const Reply> replies) -> std::vector<Ask> {
          if (replies.size() < 2) return {GenerateAsk{}};
          return replies.size() == 2 ? std::vector<Ask>{ScoreAsk{}} : std::vector<Ask>{};
        },
        [](std::span<const Reply> replies) {
          Verdict verdict;
          verdict.scores["seen"] = replies.size() == 3 && replies[2].logprobs.size() == 1 ? 1.0 : 0.0;
          if (verdict.scores["seen"] == 1.0) verdict.scores["second"] = 1.0;
          return verdict;
        }));
    return samples;
  }
  Metrics metrics(std::span<const Graded> graded) const override { return all_shares(graded); }

 private:
  TaskInfo info_;
};

TEST(Rehearsal, NamesTheMetricsWithoutAModel) {
  const SharesTask task;
  EXPECT_THAT(rehearse(load_task(task, {})), ElementsAre("first", "second", "seen"));
}

TEST(Rehearsal, ASampleThatAsksWithoutEndIsLeft) {
  int steps = 0;
  const ScriptedSample endless(
      "endless", "", [](std::span<const Reply>) { return std::vector<Ask>{GenerateAsk{}}; },
      [](std::span<const Reply>) { return Verdict(); });
  EXPECT_EQ(walk_blankly(endless, [&](const std::vector<Ask>&) { ++steps; }).size(), 32u);
  EXPECT_EQ(steps, 32);
}

}  // namespace
}  // namespace calyrex::eval::test
