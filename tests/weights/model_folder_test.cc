// Hugging Face folders that this program writes, read again.
#include "calyrex/weights/model_folder.h"

#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "tests/weights/test_files.h"

namespace calyrex::weights {
namespace {
namespace fs = std::filesystem;

void expect_same_network(const ModelConfig& a, const ModelConfig& b) {
  EXPECT_EQ(a.family, b.family);
  EXPECT_EQ(a.hidden_size, b.hidden_size);
  EXPECT_EQ(a.intermediate_size, b.intermediate_size);
  EXPECT_EQ(a.num_layers, b.num_layers);
  EXPECT_EQ(a.num_heads, b.num_heads);
  EXPECT_EQ(a.num_kv_heads, b.num_kv_heads);
  EXPECT_EQ(a.head_dim, b.head_dim);
  EXPECT_EQ(a.vocab_size, b.vocab_size);
  EXPECT_EQ(a.max_positions, b.max_positions);
  EXPECT_EQ(a.rms_norm_eps, b.rms_norm_eps);
  EXPECT_EQ(a.tied_head, b.tied_head);
  EXPECT_EQ(a.attention_bias, b.attention_bias);
  EXPECT_EQ(a.qk_norm, b.qk_norm);
  EXPECT_EQ(inverse_frequencies(a), inverse_frequencies(b));
}

TEST(ModelFolder, ConfigurationsReadAgainAreTheSame) {
  for (const char* name : {"llama", "qwen2", "qwen3", "mistral"}) {
    SCOPED_TRACE(name);
    const auto model = open_model(std::string("tests/golden/models/") + name);
    const Json json = model_config_to_json(model->config(), "float32");
    expect_same_network(parse_hf_config(json, name), model->config());
  }
}

TEST(ModelFolder, RopeFactorsOfAFileAreRefused) {
  ModelConfig config = open_model("tests/golden/models/llama")->config();
  config.rope.scaling = RopeConfig::Scaling::kFactors;
  test::expect_error(ErrorCode::kUnsupported, "begin from the model's safetensors",
                     [&] { model_config_to_json(config, "float32"); });
}

/// The source's tensors in float32.
struct Copied {
  explicit Copied(const ModelSource& source) {
    for (const TensorView& view : source.tensors()) values.push_back(read_as_float(view));
    for (size_t n = 0; n < values.size(); ++n) {
      const TensorView& view = source.tensors()[n];
      tensors.push_back({.name = view.name,
                         .dtype = DType::kF32,
                         .shape = view.shape,
                         .data = std::as_bytes(std::span(values[n]))});
    }
  }
  std::vector<std::vector<float>> values;
  std::vector<TensorToWrite> tensors;
};

TEST(ModelFolder, FromAFolderTheSmallFilesAreCopied) {
  const test::TempFolder folder;
  const fs::path out = folder / "out";
  const auto source = open_model("tests/golden/models/mistral");
  fs::create_directories(out);
  test::write_bytes(out / "notes.txt", "mine");
  write_model_folder(out, *source, Copied(*source).tensors, std::nullopt, "{{ messages }}",
                     {{"README.md", "card"}});
  const auto again = open_model(out.string());
  expect_same_network(again->config(), source->config());
  EXPECT_EQ(norms_sha256(*again), norms_sha256(*source));
  EXPECT_EQ(again->tokenizer().chat_template, "{{ messages }}");
  EXPECT_EQ(again->tokenizer().stop_ids, source->tokenizer().stop_ids);
  EXPECT_TRUE(fs::exists(out / "tokenizer.json"));
  EXPECT_FALSE(fs::exists(out / "model.safetensors.index.json"));
  EXPECT_EQ(read_file(out / "notes.txt", 100), "mine");
  EXPECT_EQ(read_file(out / "README.md", 100), "card");
  EXPECT_EQ(again->tensors().front().dtype, DType::kF32);
}

TEST(ModelFolder, FromGgufTheyAreMade) {
  const test::TempFolder folder;
  const auto source = open_model("tests/golden/weights/qwen2.gguf");
  const TokenizerFiles tokenizer{
      .tokenizer_json = "{}", .bos_token = {}, .eos_token = "<e>", .adds_bos = false};
  check_writable_as_folder(*source);
  write_model_folder(folder / "out", *source, Copied(*source).tensors, tokenizer, "", {});
  const auto again = open_model((folder / "out").string());
  expect_same_network(again->config(), source->config());
  EXPECT_EQ(norms_sha256(*again), norms_sha256(*source));
  EXPECT_EQ(again->tokenizer().stop_ids, source->tokenizer().stop_ids);
  EXPECT_EQ(again->tokenizer().tokenizer_config["eos_token"], "<e>");
}

}  // namespace
}  // namespace calyrex::weights
