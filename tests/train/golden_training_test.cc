// Eight optimiser steps of four chats against PyTorch (tools/golden): losses, gradient norms, token counts.
#include <cstdlib>

#include <gtest/gtest.h>

#include "calyrex/train/run.h"
#include "tests/hashed_adapter.h"
#include "tests/tolerances.h"
#include "tests/train/training_runs.h"
#include "tests/weights/test_files.h"

namespace calyrex::train {
namespace {

Json expected_run(const std::string& name) {
  return read_json_file("tests/golden/training/expected.json").at("runs").at(name);
}

void expect_run(const std::vector<Json>& metrics, const Json& expected) {
  ASSERT_EQ(metrics.size(), expected.at("losses").size());
  for (size_t step = 0; step < metrics.size(); ++step) {
    SCOPED_TRACE(step + 1);
    const auto loss = expected["losses"][step].get<double>();
    const auto norm = expected["grad_norms"][step].get<double>();
    EXPECT_EQ(metrics[step]["tokens"], expected["tokens"][step]);
    EXPECT_EQ(metrics[step]["label_tokens"], expected["label_tokens"][step]);
    EXPECT_NEAR(metrics[step]["loss"].get<double>(), loss, tolerance::kTrainingLoss * loss);
    EXPECT_NEAR(metrics[step]["grad_norm"].get<double>(), norm, tolerance::kTrainingGradNorm * norm);
  }
}

/// Settings of the golden runs.
std::vector<std::string> golden_settings(const std::string& model, const std::string& adapter) {
  return {"model=" + model, "adapter={init_from: \"" + adapter + "\"}", "train.learning_rate=2e-4",
          "train.schedule=constant", "train.warmup_ratio=0"};
}

class GoldenTraining : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTraining, TinyModelsEqualPyTorch) {
  const test::TempFolder folder;
  const std::string model = GetParam().substr(0, GetParam().find('.'));
  const auto config = write_tiny_config(
      folder.path(), golden_settings("tests/golden/models/" + model, "tests/golden/model/" + GetParam()));
  run_training({.config_path = config});
  expect_run(read_metrics(folder / "run"), expected_run(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Runs, GoldenTraining, testing::Values("llama.default", "qwen3.rope"),
                         [](const auto& info) { return info.param.substr(0, info.param.find('.')); });

TEST(GoldenTrainingOfTheDefaultBackbone, EqualsPyTorch) {
  std::string model;
  try {
    model = weights::open_model("default")->name();
  } catch (const Error&) {
    GTEST_SKIP() << "SKIPPED: the default backbone is not there (./run build fetches it)";
  }
  const test::TempFolder folder;
  const Json golden = read_json_file("tests/golden/score/expected.json").at("adapters").at("late8th");
  const double amplitude =
      read_json_file("tests/golden/training/expected.json").at("amplitude").get<double>();
  test::write_hashed_adapter(folder / "adapter", golden, *weights::open_model("default"), amplitude);
  const auto config = write_tiny_config(folder.path(), golden_settings(model, (folder / "adapter").string()));
  run_training({.config_path = config});
  expect_run(read_metrics(folder / "run"), expected_run("default_backbone.late8th"));
}

}  // namespace
}  // namespace calyrex::train
