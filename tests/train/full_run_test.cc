// Runs of the kinds that work in the layers themselves: what they leave behind, and that it is what was
// trained.
#include <fstream>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/model/decoder.h"
#include "calyrex/text/tokenizer.h"
#include "calyrex/train/run.h"
#include "calyrex/weights/adapter_folder.h"
#include "calyrex/weights/model_source.h"
#include "tests/model/tiny_models.h"
#include "tests/train/training_runs.h"
#include "tests/weights/test_files.h"

namespace calyrex::train {
namespace {
namespace fs = std::filesystem;

at::Tensor logits_of_folder(const fs::path& folder) {
  model::TinyModel tiny = model::TinyModel::open("llama");
  tiny.decoder = model::Decoder::load(*weights::open_model(folder.string()), at::kFloat, at::kCPU);
  const at::NoGradGuard no_grad;
  return tiny.run(nullptr).logits;
}

TEST(FullRun, LeavesAModelThatLoadsAndHasLearnt) {
  const test::TempFolder folder;
  const auto config = write_tiny_config(
      folder.path(), {"adapter.kind=full", "train.epochs=2", "train.checkpoint_every=4",
                      "data.eval=[{path: tests/golden/training/rows.jsonl}]", "train.eval_every=8"});
  run_training({.config_path = config});
  const fs::path output = folder / "run";
  const auto source = weights::open_model("tests/golden/models/llama");
  const auto trained = weights::open_model(output.string());
  EXPECT_EQ(trained->tensors().size(), source->tensors().size());
  EXPECT_EQ(trained->tokenizer().chat_template, source->tokenizer().chat_template);
  EXPECT_NE(weights::norms_sha256(*trained), weights::norms_sha256(*source));
  EXPECT_FALSE(fs::exists(output / "adapter_config.json"));
  EXPECT_NE(file_bytes(output / "README.md").find("calyrex chat --model ."), std::string::npos);
  EXPECT_FALSE(at::equal(logits_of_folder(output), logits_of_folder("tests/golden/models/llama")));
  const std::vector<Json> metrics = read_metrics(output);
  EXPECT_LT(metrics.back()["eval_loss"].get<double>(), metrics[7]["eval_loss"].get<double>());
  EXPECT_TRUE(metrics[0]["block_grad_norms"].contains("other"));
  const Json record = read_json_file(output / "training.json");
  EXPECT_EQ(record["trained_parameters"], record["backbone_parameters"]);
  // The checkpoint holds the same weights in float32.
  const auto checkpoint =
      weights::SafetensorsFile::open(output / "checkpoints/step-00000016/adapter_model.safetensors");
  for (const weights::TensorView& view : trained->tensors()) {
    EXPECT_EQ(weights::read_as_float(view), weights::read_as_float(*checkpoint.find(view.name))) << view.name;
  }
}

TEST(FullRun, ACheckpointIsNoAdapter) {
  const test::TempFolder folder;
  run_training({.config_path = write_tiny_config(folder.path(), {"adapter.kind=full", "train.max_steps=1"})});
  const auto source = weights::open_model("tests/golden/models/llama");
  const auto checkpoint = weights::open_adapter(folder / "run/checkpoints/step-00000001", *source,
                                                weights::BaseMismatch::kReject);
  test::expect_error(ErrorCode::kUnsupported, "kind full", [&] {
    model::load_adapter(checkpoint, source->config(), at::kFloat, at::kCPU, model::AdapterUse::kServe);
  });
}

TEST(FullRun, RestartRemovesTheModelAndKeepsOtherFiles) {
  const test::TempFolder folder;
  const auto config = write_tiny_config(folder.path(), {"adapter.kind=full", "train.max_steps=1"});
  run_training({.config_path = config});
  std::ofstream(folder / "run/notes.txt") << "mine";
  run_training({.config_path = config, .overrides = {"adapter.kind=cal"}, .existing = Existing::kRestart});
  EXPECT_FALSE(fs::exists(folder / "run/model.safetensors"));
  EXPECT_FALSE(fs::exists(folder / "run/config.json"));
  EXPECT_TRUE(fs::exists(folder / "run/adapter_config.json"));
  EXPECT_TRUE(fs::exists(folder / "run/notes.txt"));
}

TEST(FullRun, TheModelsOwnFolderIsRefusedAsOutput) {
  const test::TempFolder folder;
  for (const auto& entry : fs::directory_iterator("tests/golden/models/llama")) {
    fs::copy_file(entry.path(), folder.path() / entry.path().filename());
  }
  const auto config = write_tiny_config(
      folder.path(),
      {"model=" + folder.path().string(), "output=" + folder.path().string(), "adapter.kind=full"});
  test::expect_error(ErrorCode::kInvalidArgument, "is the folder of the model itself",
                     [&] { run_training({.config_path = config}); });
}

TEST(FullRun, FromGgufTheTokenizerIsWrittenAnew) {
  const char* path = ".deps/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!fs::exists(path)) GTEST_SKIP() << path << " is absent";
  const auto source = weights::open_model(path);
  const auto tokenizer = text::Tokenizer::create(source->tokenizer());
  const test::TempFolder folder;
  test::write_bytes(folder / "tokenizer.json", tokenizer->to_json());
  weights::TokenizerSource written;
  written.tokenizer_json = folder / "tokenizer.json";
  const auto again = text::Tokenizer::create(written);
  for (const char* text :
       {"Hello, world!  1234 it's\n\n\ttabs", "日本語 \xF0\x9F\xA7\xBF <|im_start|>system\nx<|im_end|>"}) {
    EXPECT_EQ(again->encode(text, text::AddedTokens::kAll).ids,
              tokenizer->encode(text, text::AddedTokens::kAll).ids);
  }
  EXPECT_EQ(again->vocab_size(), tokenizer->vocab_size());
  EXPECT_EQ(again->added_tokens().size(), tokenizer->added_tokens().size());
}

TEST(LoraRun, LeavesPeftsFilesAndStartsFromThem) {
  const test::TempFolder folder;
  const auto config = write_tiny_config(folder.path(), {"adapter.kind=lora", "adapter.lora.rank=4"});
  run_training({.config_path = config});
  const fs::path output = folder / "run";
  const Json peft = read_json_file(output / "adapter_config.json");
  EXPECT_EQ(peft["peft_type"], "LORA");
  EXPECT_EQ(peft["r"], 4);
  EXPECT_EQ(peft["lora_alpha"], 4);
  const auto model = weights::open_model("tests/golden/models/llama");
  const auto adapter = weights::open_adapter(output, *model, weights::BaseMismatch::kReject);
  EXPECT_EQ(adapter.config.base.norms_sha256, weights::norms_sha256(*model));
  EXPECT_EQ(adapter.chat_template, model->tokenizer().chat_template);
  // From an adapter that PEFT made.
  const fs::path more = folder / "more";
  fs::create_directories(more);
  run_training({.config_path = write_tiny_config(
                    more, {"adapter={init_from: tests/golden/model/llama.lora_all}", "train.max_steps=2"})});
  EXPECT_EQ(weights::open_adapter(more / "run", *model, weights::BaseMismatch::kReject).config.lora.rank, 4);
}

TEST(LoraRun, ThePrefixCacheIsOfNoUseAndTheRunGoesOn) {
  const test::TempFolder folder;
  const auto config = write_tiny_config(
      folder.path(), {"adapter.kind=lora", "train.prefix_cache_gib=1", "train.max_steps=1"});
  run_training({.config_path = config});
  EXPECT_TRUE(fs::exists(folder / "run/adapter_config.json"));
}

}  // namespace
}  // namespace calyrex::train
