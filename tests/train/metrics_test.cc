// metrics.jsonl: its keys, and what continuing an interrupted run does to it.
#include "calyrex/train/metrics.h"

#include <gtest/gtest.h>

#include "calyrex/base/file.h"
#include "tests/weights/test_files.h"

namespace calyrex::train {
namespace {

StepMetrics example(int64_t step) {
  return {.step = step,
          .loss = 2.5,
          .tokens = 100,
          .label_tokens = 30,
          .grad_norm = 0.5,
          .learning_rate = 1e-4,
          .seconds = 0.25,
          .block_grad_norms = {{3, 0.3}, {25, 0.4}},
          .eval_loss = {}};
}

TEST(Metrics, TheFixedKeysComeFirst) {
  StepMetrics metrics = example(1);
  metrics.eval_loss = 2.25;
  EXPECT_EQ(to_json_line(metrics_to_json(metrics)),
            R"({"step":1,"loss":2.5,"tokens":100,"label_tokens":30,"grad_norm":0.5,"learning_rate":0.0001,)"
            R"("seconds":0.25,"block_grad_norms":{"blocks.3":0.3,"blocks.25":0.4},"eval_loss":2.25})");
}

TEST(Metrics, ContinuingDropsWhatCameAfterTheCheckpoint) {
  const test::TempFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  {
    MetricsLog log(path, 0);
    for (int64_t step = 1; step <= 5; ++step) log.write(example(step));
  }
  LineWriter(path, LineWriter::Mode::kAppend).write_line("{\"step\":6,\"lo");
  {
    MetricsLog log(path, 3);
    log.write(example(4));
  }
  std::vector<int64_t> steps;
  for_each_json_line(path, [&](int64_t, const Json& row) { steps.push_back(row["step"].get<int64_t>()); });
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4}));
  MetricsLog anew(path, 0);
  EXPECT_EQ(read_file(path, 1000), "");
}

TEST(Metrics, TheCurveKeepsItsEndsWhenThinned) {
  const test::TempFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  MetricsLog log(path, 0);
  for (int64_t step = 1; step <= 100; ++step) log.write(example(step));
  const Json curve = read_loss_curve(path, 7);
  ASSERT_EQ(curve["loss"].size(), 7u);
  EXPECT_EQ(curve["loss"].front()["step"], 1);
  EXPECT_EQ(curve["loss"].back()["step"], 100);
  EXPECT_FALSE(curve.contains("eval_loss"));
}

}  // namespace
}  // namespace calyrex::train
