#include "calyrex/weights/model_source.h"

#include "calyrex/base/json.h"
#include "calyrex/base/sha256.h"
#include "calyrex/weights/safetensors.h"
#include "tests/weights/test_files.h"

namespace calyrex::weights {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TempFolder;

const char* const kLlama = "tests/golden/models/llama";
const char* const kMistral = "tests/golden/models/mistral";
const char* const kLlamaGguf = "tests/golden/weights/llama-00001-of-00003.gguf";

std::string digest(const TensorView& tensor) {
  const std::vector<float> values = read_as_float(tensor);
  Sha256 hash;
  hash.update(std::as_bytes(std::span(values)));
  return hash.hex_digest();
}

void expect_same_tensors(const ModelSource& left, const ModelSource& right) {
  ASSERT_EQ(left.tensors().size(), right.tensors().size());
  for (const TensorView& tensor : left.tensors()) {
    const TensorView* other = right.find(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    EXPECT_EQ(tensor.shape, other->shape) << tensor.name;
    EXPECT_EQ(digest(tensor), digest(*other)) << tensor.name;
  }
}

/// A golden model's folder, copied so that a test can damage it.
void copy_model(const char* from, const TempFolder& folder) {
  fs::copy(from, folder.path(), fs::copy_options::recursive);
}

void change_json(const fs::path& path, const std::function<void(Json&)>& change) {
  Json json = read_json_file(path);
  change(json);
  test::write_bytes(path, to_json_text(json));
}

TEST(ModelSource, FolderOfOneFile) {
  const auto model = open_model(kLlama);
  EXPECT_EQ(model->format(), "safetensors");
  EXPECT_EQ(model->name(), kLlama);
  EXPECT_EQ(model->config().num_kv_heads, 2);
  EXPECT_EQ(model->config().rope.scaling, RopeConfig::Scaling::kLlama3);
  EXPECT_EQ(model->tensors().size(), expected_tensors(model->config()).size());
  EXPECT_EQ(model->tensors().front().name, "model.embed_tokens.weight");
  EXPECT_EQ(model->find("nothing"), nullptr);
  const TokenizerSource& tokenizer = model->tokenizer();
  EXPECT_TRUE(tokenizer.tokenizer_json && fs::exists(*tokenizer.tokenizer_json));
  EXPECT_EQ(tokenizer.gguf, nullptr);
  EXPECT_EQ(model->describe()["types"]["BF16"]["tensors"], 30);
}

TEST(ModelSource, FolderOfShards) {
  const auto model = open_model(kMistral);
  EXPECT_EQ(model->config().family, ModelFamily::kMistral);
  EXPECT_EQ(model->describe()["files"].size(), 2u);
}

// The GGUF files are written by the Python package gguf from the same folders (tools/golden/weights_gguf.py).
TEST(ModelSource, SplitGgufEqualsTheFolder) {
  const auto folder = open_model(kLlama);
  for (const char* part : {kLlamaGguf, "tests/golden/weights/llama-00003-of-00003.gguf"}) {
    const auto gguf = open_model(part);
    EXPECT_EQ(gguf->format(), "gguf");
    expect_same_tensors(*folder, *gguf);
    EXPECT_EQ(norms_sha256(*folder), norms_sha256(*gguf));
    EXPECT_EQ(gguf->config().rms_norm_eps, folder->config().rms_norm_eps);
    EXPECT_EQ(gguf->config().rope.scaling, RopeConfig::Scaling::kFactors);
    const std::vector<float> wanted = inverse_frequencies(folder->config());
    const std::vector<float> found = inverse_frequencies(gguf->config());
    ASSERT_EQ(wanted.size(), found.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-6f * wanted[i]);
  }
}

TEST(ModelSource, GgufWithoutTheLastPaddingEqualsTheFolder) {
  const auto folder = open_model("tests/golden/models/qwen2");
  const auto gguf = open_model("tests/golden/weights/qwen2.gguf");
  EXPECT_TRUE(gguf->config().attention_bias);
  EXPECT_TRUE(gguf->config().tied_head);
  EXPECT_EQ(gguf->config().vocab_size, folder->config().vocab_size);
  expect_same_tensors(*folder, *gguf);
  EXPECT_EQ(norms_sha256(*folder), norms_sha256(*gguf));
}

TEST(ModelSource, QuantisedGgufEqualsThePackageGguf) {
  const auto model = open_model("tests/golden/weights/qwen3.gguf");
  EXPECT_EQ(model->config().head_dim, 16);
  EXPECT_TRUE(model->config().qk_norm);
  const Json golden = read_json_file("tests/golden/weights/qwen3.json");
  ASSERT_EQ(golden.size(), model->tensors().size());
  for (const TensorView& tensor : model->tensors())
    EXPECT_EQ(digest(tensor), golden.at(tensor.name)) << tensor.name;
  EXPECT_EQ(norms_sha256(*model), norms_sha256(*open_model("tests/golden/models/qwen3")));
}

TEST(ModelSource, GgufTokenizer) {
  const auto model = open_model(kLlamaGguf);
  const TokenizerSource& source = model->tokenizer();
  ASSERT_NE(source.gguf, nullptr);
  EXPECT_FALSE(source.tokenizer_json);
  EXPECT_EQ(source.gguf->model, "gpt2");
  EXPECT_EQ(source.gguf->pre, "gpt-2");
  EXPECT_EQ(source.gguf->tokens.size(), 288u);
  EXPECT_EQ(source.gguf->token_types.size(), 288u);
  EXPECT_EQ(source.gguf->merges, (std::vector<std::string>{"a b", "b c"}));
  EXPECT_EQ(source.gguf->add_bos, false);
  EXPECT_EQ(source.gguf->add_eos, std::nullopt);
  EXPECT_EQ(source.gguf->bos_id, 0);
  EXPECT_EQ(source.stop_ids, (std::vector<TokenId>{3, 1}));
  EXPECT_TRUE(source.chat_template);
}

TEST(ModelSource, DefaultModel) {
  if (!fs::exists(".deps/models/SmolLM2-135M-Instruct.Q4_1.gguf")) {
    GTEST_SKIP() << ".deps/models/SmolLM2-135M-Instruct.Q4_1.gguf is absent (./run build fetches it)";
  }
  const auto model = open_model("default");
  EXPECT_EQ(model->config().num_layers, 30);
  EXPECT_EQ(model->config().rms_norm_eps, 1e-5);
  EXPECT_EQ(model->config().rope.theta, 100000.0);
  EXPECT_TRUE(model->config().tied_head);
  EXPECT_EQ(model->tokenizer().stop_ids, (std::vector<TokenId>{2}));
  EXPECT_EQ(model->tokenizer().gguf->pre, "smollm");
}

TEST(ModelSource, DefaultModelThatIsNotThere) {
  ::setenv("CALYREX_DEFAULT_MODEL", "/nowhere/model.gguf", 1);
  expect_error(ErrorCode::kNotFound, "/nowhere/model.gguf (CALYREX_DEFAULT_MODEL) does not exist",
               [] { open_model("default"); });
  ::unsetenv("CALYREX_DEFAULT_MODEL");
}

TEST(ModelSource, PathsThatAreNoModel) {
  const TempFolder folder;
  expect_error(ErrorCode::kNotFound, "no model ./nothing.gguf", [] { open_model("./nothing.gguf"); });
  expect_error(ErrorCode::kNotFound, "no model xxx", [] { open_model(std::string(5000, 'x')); });
  expect_error(ErrorCode::kNotFound, "has no config.json", [&] { open_model(folder.path().string()); });
  test::write_bytes(folder / "m.gguf", "GGUF");
  expect_error(ErrorCode::kInvalidArgument,
               fmt::format("give the .gguf file itself, e.g. {}", (folder / "m.gguf").string()),
               [&] { open_model(folder.path().string()); });
  test::write_bytes(folder / "adapter_config.json", "{}");
  expect_error(ErrorCode::kInvalidArgument, "it is an adapter", [&] { open_model(folder.path().string()); });
  test::write_bytes(folder / "weights.bin", "abcdefgh");
  expect_error(ErrorCode::kInvalidArgument, "is no .gguf file",
               [&] { open_model((folder / "weights.bin").string()); });
}

TEST(ModelSource, AGgufFileOfAnyName) {
  const TempFolder folder;
  fs::copy("tests/golden/weights/qwen2.gguf", folder / "model.download");
  EXPECT_EQ(open_model((folder / "model.download").string())->format(), "gguf");
}

TEST(ModelSource, AllTensorFaultsAtOnce) {
  const TempFolder folder;
  copy_model(kLlama, folder);
  const SafetensorsFile file = SafetensorsFile::open(fs::path(kLlama) / "model.safetensors");
  std::vector<TensorToWrite> tensors;
  for (const TensorView& tensor : file.tensors()) {
    TensorToWrite copy{tensor.name, tensor.dtype, tensor.shape, tensor.data};
    if (tensor.name == "model.norm.weight") continue;
    if (tensor.name == "model.layers.0.mlp.up_proj.weight") std::swap(copy.shape[0], copy.shape[1]);
    if (tensor.name == "model.layers.1.mlp.up_proj.weight") copy.dtype = DType::kI16;
    if (tensor.name == "lm_head.weight") copy.name = "head.weight";
    tensors.push_back(copy);
  }
  write_safetensors(folder / "model.safetensors", tensors);
  expect_error(ErrorCode::kCorruptData,
               folder.path().string() +
                   ": 5 faults in its tensors: model.layers.0.mlp.up_proj.weight has shape [32, 64], "
                   "expected [64, 32]; "
                   "model.layers.1.mlp.up_proj.weight has integer type I16; model.norm.weight is missing; "
                   "lm_head.weight is missing; head.weight is unexpected",
               [&] { open_model(folder.path().string()); });
}

TEST(ModelSource, ManyFaultsAreCounted) {
  const TempFolder folder;
  copy_model(kLlama, folder);
  write_safetensors(folder / "model.safetensors", {});
  expect_error(ErrorCode::kCorruptData, "; and 10 more", [&] { open_model(folder.path().string()); });
}

TEST(ModelSource, LeftoversAreLeftOut) {
  const TempFolder folder;
  const char* const from = "tests/golden/models/qwen2";  // tied head
  copy_model(from, folder);
  const SafetensorsFile file = SafetensorsFile::open(fs::path(from) / "model.safetensors");
  std::vector<TensorToWrite> tensors;
  for (const TensorView& tensor : file.tensors())
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.data});
  const TensorView* embedding = file.find("model.embed_tokens.weight");
  tensors.push_back({"lm_head.weight", embedding->dtype, embedding->shape, embedding->data});
  const std::vector<float> frequencies(4);
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq",
                     DType::kF32,
                     {4},
                     std::as_bytes(std::span(frequencies))});
  write_safetensors(folder / "model.safetensors", tensors);
  expect_same_tensors(*open_model(from), *open_model(folder.path().string()));
}

TEST(ModelSource, ShardsThatDisagreeWithTheIndex) {
  const TempFolder folder;
  copy_model(kMistral, folder);
  const fs::path index = folder / "model.safetensors.index.json";
  change_json(index, [](Json& json) {
    json["weight_map"]["model.norm.weight"] = "model-00001-of-00002.safetensors";
    json["weight_map"]["invented"] = "model-00002-of-00002.safetensors";
  });
  const std::string open = folder.path().string();
  expect_error(ErrorCode::kCorruptData, "3 faults in its tensors: ", [&] { open_model(open); });
  expect_error(ErrorCode::kCorruptData, "model.norm.weight is missing from model-00001",
               [&] { open_model(open); });
  expect_error(ErrorCode::kCorruptData, "invented is missing from model-00002", [&] { open_model(open); });
  change_json(index, [](Json& json) { json["weight_map"]["x"] = "../../etc/passwd"; });
  expect_error(ErrorCode::kCorruptData, "tensor x: \"../../etc/passwd\" is no name of a safetensors file",
               [&] { open_model(open); });
  change_json(index, [](Json& json) { json.erase("weight_map"); });
  expect_error(ErrorCode::kCorruptData, "\"weight_map\" is missing or empty", [&] { open_model(open); });
}

TEST(ModelSource, MissingWeights) {
  const TempFolder folder;
  copy_model(kMistral, folder);
  fs::remove(folder / "model-00002-of-00002.safetensors");
  expect_error(ErrorCode::kNotFound, "model-00002-of-00002.safetensors",
               [&] { open_model(folder.path().string()); });
  fs::remove(folder / "model.safetensors.index.json");
  expect_error(ErrorCode::kNotFound, "has neither model.safetensors nor",
               [&] { open_model(folder.path().string()); });
  test::write_bytes(folder / "pytorch_model.bin", "x");
  expect_error(ErrorCode::kUnsupported, "convert the model to safetensors",
               [&] { open_model(folder.path().string()); });
}

TEST(ModelSource, StopTokensAndTemplates) {
  const TempFolder folder;
  copy_model(kLlama, folder);
  const std::string open = folder.path().string();
  const auto source = [&] { return open_model(open)->tokenizer(); };
  test::write_bytes(folder / "generation_config.json", R"({"eos_token_id": [5, 6, 5]})");
  EXPECT_EQ(source().stop_ids, (std::vector<TokenId>{5, 6}));
  test::write_bytes(folder / "generation_config.json", R"({"eos_token_id": 7})");
  EXPECT_EQ(source().stop_ids, (std::vector<TokenId>{7}));
  test::write_bytes(folder / "generation_config.json", "[7]");
  expect_error(ErrorCode::kCorruptData, "generation_config.json: not a JSON object", source);
  fs::remove(folder / "generation_config.json");
  EXPECT_EQ(source().stop_ids, (std::vector<TokenId>{3}));  // config.json's
  change_json(folder / "config.json", [](Json& json) { json["eos_token_id"] = 100000; });
  expect_error(ErrorCode::kCorruptData, "\"eos_token_id\": 100000 is no token id", source);
  change_json(folder / "config.json", [](Json& json) { json.erase("eos_token_id"); });
  EXPECT_TRUE(source().stop_ids.empty());

  change_json(folder / "tokenizer_config.json", [](Json& json) { json["chat_template"] = "from config"; });
  EXPECT_EQ(source().chat_template, "from config");
  change_json(folder / "tokenizer_config.json", [](Json& json) {
    json["chat_template"] = {{{"name", "tool_use"}, {"template", "tools"}},
                             {{"name", "default"}, {"template", "plain"}}};
  });
  EXPECT_EQ(source().chat_template, "plain");
  test::write_bytes(folder / "chat_template.jinja", "from file");
  EXPECT_EQ(source().chat_template, "from file");
  fs::remove(folder / "chat_template.jinja");
  change_json(folder / "tokenizer_config.json", [](Json& json) { json["chat_template"] = 3; });
  expect_error(ErrorCode::kCorruptData, "\"chat_template\" must be text or a list", source);
}

TEST(ModelSource, SplitPartsThatDoNotBelongTogether) {
  const TempFolder folder;
  for (const char* name :
       {"llama-00001-of-00003.gguf", "llama-00002-of-00003.gguf", "llama-00003-of-00003.gguf"}) {
    fs::copy(fs::path("tests/golden/weights") / name, folder / name);
  }
  const std::string first = (folder / "llama-00001-of-00003.gguf").string();
  fs::copy(first, folder / "alone.gguf");
  expect_error(ErrorCode::kCorruptData, "split.count is 3, but the file is not named like one of 3 parts",
               [&] { open_model((folder / "alone.gguf").string()); });
  fs::rename(folder / "llama-00003-of-00003.gguf", folder / "third");
  expect_error(ErrorCode::kNotFound, "llama-00003-of-00003.gguf", [&] { open_model(first); });
  fs::copy(folder / "llama-00002-of-00003.gguf", folder / "llama-00003-of-00003.gguf");
  expect_error(ErrorCode::kCorruptData, "split.no and split.count must be 2 and 3",
               [&] { open_model(first); });
}

struct GgufCase {
  const char* name;
  std::function<void(test::GgufBuilder&)> change;
  ErrorCode code;
  const char* message;
};

class RejectedGguf : public testing::TestWithParam<GgufCase> {};

TEST_P(RejectedGguf, NamesTheKeyOrTensor) {
  const TempFolder folder;
  test::GgufBuilder file = test::tiny_gguf();
  GetParam().change(file);
  test::write_bytes(folder / "a.gguf", file.bytes());
  expect_error(GetParam().code, GetParam().message, [&] { open_model((folder / "a.gguf").string()); });
}

using Builder = test::GgufBuilder;
constexpr ErrorCode kNo = ErrorCode::kUnsupported;
constexpr ErrorCode kBad = ErrorCode::kCorruptData;

INSTANTIATE_TEST_SUITE_P(
    All, RejectedGguf,
    testing::Values(
        GgufCase{"moe", [](Builder& file) { file.add_u32("llama.expert_count", 8); }, kNo,
                 "metadata key llama.expert_count: not supported: mixture of experts"},
        GgufCase{"window", [](Builder& file) { file.add_u32("llama.attention.sliding_window", 4); }, kNo,
                 "metadata key llama.attention.sliding_window: not supported: sliding-window attention"},
        GgufCase{"yarn", [](Builder& file) { file.add_string("llama.rope.scaling.type", "yarn"); }, kNo,
                 "metadata key llama.rope.scaling.type: not supported: rope scaling 'yarn'"},
        GgufCase{"partial_rotary", [](Builder& file) { file.add_u32("llama.rope.dimension_count", 1); }, kNo,
                 "llama.rope.dimension_count"},
        GgufCase{"not_causal", [](Builder& file) { file.add_bool("llama.attention.causal", 0); }, kNo,
                 "llama.attention.causal"},
        GgufCase{"logit_scale", [](Builder& file) { file.add_f32("llama.logit_scale", 0.5f); }, kNo,
                 "llama.logit_scale"},
        GgufCase{"value_length",
                 [](Builder& file) {
                   file.add_u32("llama.attention.key_length", 2);
                   file.add_u32("llama.attention.value_length", 4);
                 },
                 kNo, "llama.attention.value_length"},
        GgufCase{"layers_differ",
                 [](Builder& file) {
                   file.add("llama.attention.head_count_kv", 9,
                            Builder::raw(uint32_t{4}) + Builder::raw(uint64_t{2}) +
                                Builder::raw(uint32_t{1}) + Builder::raw(uint32_t{2}));
                 },
                 kNo, "llama.attention.head_count_kv: not supported: layers of different shapes"},
        GgufCase{"bias",
                 [](Builder& file) {
                   file.tensors.push_back(
                       {.name = "blk.0.attn_output.bias", .dimensions = {2}, .data = std::string(8, 0)});
                 },
                 kNo, "tensor blk.0.attn_output.bias: biases are supported on q, k and v of qwen2 only"},
        GgufCase{"iq", [](Builder& file) { file.tensors[4].type = 23; }, kNo,
                 "tensor blk.0.attn_q.weight has type IQ4_XS, which is not supported"},
        GgufCase{"rope_factors_shape",
                 [](Builder& file) {
                   file.tensors.push_back(
                       {.name = "rope_freqs.weight", .dimensions = {2}, .data = std::string(8, 0)});
                 },
                 kBad, "tensor rope_freqs.weight must be F32 of shape [1], not F32 [2]"},
        GgufCase{"rope_factors_zero",
                 [](Builder& file) {
                   file.tensors.push_back(
                       {.name = "rope_freqs.weight", .dimensions = {1}, .data = std::string(4, 0)});
                 },
                 kBad, "tensor rope_freqs.weight holds 0"},
        GgufCase{"missing_tensor", [](Builder& file) { file.tensors.pop_back(); }, kBad,
                 "1 fault in its tensors: model.layers.0.mlp.down_proj.weight is missing"},
        GgufCase{"unexpected_tensor",
                 [](Builder& file) {
                   file.tensors.push_back(
                       {.name = "blk.1.ffn_up.weight", .dimensions = {2}, .data = std::string(8, 0)});
                 },
                 kBad, "model.layers.1.mlp.up_proj.weight is unexpected"},
        GgufCase{"foreign_tensor",
                 [](Builder& file) {
                   file.tensors.push_back({.name = "v.patch", .dimensions = {2}, .data = std::string(8, 0)});
                 },
                 kBad, "v.patch is unexpected"},
        GgufCase{"no_embedding", [](Builder& file) { file.tensors.front().name += ".old"; }, kBad,
                 "tensor token_embd.weight is missing"},
        GgufCase{"vocabulary", [](Builder& file) { file.add_u32("llama.vocab_size", 3); }, kBad,
                 "llama.vocab_size is 3, but the embedding has 2 rows"},
        GgufCase{"token_id", [](Builder& file) { file.add_u32("tokenizer.ggml.eos_token_id", 2); }, kBad,
                 "tokenizer.ggml.eos_token_id: 2 is no token id"},
        GgufCase{"token_types",
                 [](Builder& file) {
                   file.add("tokenizer.ggml.token_type", 9,
                            Builder::raw(uint32_t{5}) + Builder::raw(uint64_t{1}) + Builder::raw(int32_t{1}));
                 },
                 kBad, "1 token types for 2 tokens"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(RejectedGguf, OtherArchitecture) {
  const TempFolder folder;
  std::string bytes = test::tiny_gguf().bytes();
  bytes.replace(bytes.find("llama"), 5, "gemma");
  test::write_bytes(folder / "a.gguf", bytes);
  expect_error(ErrorCode::kUnsupported,
               "general.architecture 'gemma' is not supported; llama, qwen2 and qwen3 are",
               [&] { open_model((folder / "a.gguf").string()); });
}

TEST(ModelSource, SmallestGgufAndLinearRope) {
  const TempFolder folder;
  Builder file = test::tiny_gguf();
  file.add_f32("llama.rope.scaling.factor", 4.0f);
  test::write_bytes(folder / "a.gguf", file.bytes());
  const auto model = open_model((folder / "a.gguf").string());
  EXPECT_EQ(model->config().rope.scaling, RopeConfig::Scaling::kLinear);
  EXPECT_EQ(model->config().rope.factor, 4.0);
  EXPECT_TRUE(model->config().tied_head);
  EXPECT_EQ(model->tokenizer().gguf->pre, "default");
}

}  // namespace
}  // namespace calyrex::weights
