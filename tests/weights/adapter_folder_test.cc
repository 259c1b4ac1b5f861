#include "calyrex/weights/adapter_folder.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "calyrex/base/json.h"
#include "tests/weights/test_files.h"

namespace calyrex::weights {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TempFolder;

const char* const kGolden = "tests/golden/model/llama.default";
const char* const kModel = "tests/golden/models/llama";

Json golden_json() { return read_json_file(fs::path(kGolden) / "adapter_config.json"); }

AdapterConfig small_config() {
  AdapterConfig config;
  config.placement = {1, 2};
  config.base = {.model_type = "llama",
                 .hidden_size = 4,
                 .num_hidden_layers = 3,
                 .vocab_size = 10,
                 .norms_sha256 = "ab"};
  config.cal = {
      .num_heads = 2, .num_kv_heads = 1, .head_dim = 2, .intermediate_size = 3, .rms_norm_eps = 1e-5};
  config.base_model_name_or_path = "org/name";
  return config;
}

/// Tensors of a configuration, all of one value.
struct Filled {
  explicit Filled(const AdapterConfig& config, float value = 0.5f) {
    for (const ExpectedTensor& tensor : expected_adapter_tensors(config)) {
      int64_t count = 1;
      for (const int64_t size : tensor.shape) count *= size;
      values.emplace_back(static_cast<size_t>(count), value);
      tensors.push_back({tensor.name, DType::kF32, tensor.shape, std::as_bytes(std::span(values.back()))});
    }
  }
  std::vector<std::vector<float>> values;
  std::vector<TensorToWrite> tensors;
};

TEST(AdapterConfig, WritesTheFormatToTheLetter) {
  EXPECT_EQ(
      to_json_line(adapter_config_to_json(small_config())),
      R"({"format":"calyrex-adapter","version":1,"kind":"cal","placement":[1,2],)"
      R"("base":{"model_type":"llama","hidden_size":4,"num_hidden_layers":3,"vocab_size":10,"norms_sha256":"ab"},)"
      R"("cal":{"num_heads":2,"num_kv_heads":1,"head_dim":2,"intermediate_size":3,"rms_norm_eps":1e-05,)"
      R"("position":"none","self_inclusion":"inclusive","mlp_scope":"all","attention_bias":false,"qk_norm":false},)"
      R"("span":{"part":"content","default_text":"ignore"},"base_model_name_or_path":"org/name",)"
      R"("peft_type":"CALYREX"})");
  AdapterConfig parallel = small_config();
  parallel.kind = AdapterKind::kParallelMlp;
  parallel.parallel_mlp = {.intermediate_size = 7, .rms_norm_eps = 1e-6, .input = MlpInput::kParallel};
  parallel.base.norms_sha256.reset();
  parallel.chat_date = "2026-11-29";
  const Json json = adapter_config_to_json(parallel);
  EXPECT_EQ(to_json_line(json["parallel_mlp"]),
            R"({"intermediate_size":7,"rms_norm_eps":1e-06,"input":"parallel","mlp_scope":"all"})");
  EXPECT_EQ(json["chat_date"], "2026-11-29");
  EXPECT_FALSE(json["base"].contains("norms_sha256"));
  EXPECT_FALSE(json.contains("cal"));
}

TEST(AdapterConfig, RoundTrip) {
  AdapterConfig config = small_config();
  config.cal.position = CalPosition::kRope;
  config.cal.self_inclusion = SelfInclusion::kExclusive;
  config.cal.mlp_scope = MlpScope::kAnchored;
  config.cal.attention_bias = config.cal.qk_norm = true;
  config.span = {.part = SpanPart::kMessage, .default_text = DefaultText::kAnchor, .role = SpanRole::kUser};
  const AdapterConfig read = parse_adapter_config(adapter_config_to_json(config), "x");
  EXPECT_EQ(read.cal, config.cal);
  EXPECT_EQ(read.span, config.span);
  EXPECT_EQ(read.placement, config.placement);
  EXPECT_EQ(to_json_line(adapter_config_to_json(read)), to_json_line(adapter_config_to_json(config)));
}

TEST(AdapterConfig, AbsentKeysTakeDefaults) {
  Json json = golden_json();
  json.erase("span");
  json.erase("peft_type");
  json["cal"] = {{"num_heads", nullptr}};
  json["surprise"] = {1, 2};  // unknown keys at the top are left out
  const AdapterConfig config = parse_adapter_config(json, "x");
  EXPECT_FALSE(is_resolved(config));
  EXPECT_EQ(config.span, SpanConfig{});
  EXPECT_EQ(config.cal.position, CalPosition::kNone);
  EXPECT_EQ(config.cal.mlp_scope, MlpScope::kAll);
  const AdapterConfig resolved = resolve_adapter_config(config, open_model(kModel)->config());
  EXPECT_TRUE(is_resolved(resolved));
  EXPECT_EQ(resolved.cal.num_heads, 4);
  EXPECT_EQ(resolved.cal.num_kv_heads, 2);
  EXPECT_EQ(resolved.cal.head_dim, 8);
  EXPECT_EQ(resolved.cal.intermediate_size, 64);
  EXPECT_EQ(resolved.cal.rms_norm_eps, 1e-5);
}

struct Rejected {
  const char* name;
  const char* pointer;  // JSON pointer of the value to change
  const char* value;    // empty: erased
  ErrorCode code;
  const char* message;
};

class RejectedAdapterConfig : public testing::TestWithParam<Rejected> {};

TEST_P(RejectedAdapterConfig, NamesTheKey) {
  Json json = adapter_config_to_json(small_config());
  const Json::json_pointer pointer(GetParam().pointer);
  if (*GetParam().value == '\0') {
    json.at(pointer.parent_pointer()).erase(pointer.back());
  } else {
    json[pointer] = parse_json(GetParam().value, "test");
  }
  expect_error(GetParam().code, GetParam().message,
               [&] { parse_adapter_config(json, "adapter_config.json"); });
}

constexpr ErrorCode kNo = ErrorCode::kUnsupported;
constexpr ErrorCode kBad = ErrorCode::kCorruptData;

INSTANTIATE_TEST_SUITE_P(
    All, RejectedAdapterConfig,
    testing::Values(
        Rejected{"format", "/format", "\"other\"", kNo, "format \"other\" is unknown"},
        Rejected{"version", "/version", "2", kNo, "version 2 of the format; this program reads version 1"},
        Rejected{"no_version", "/version", "", kNo, "version null of the format"},
        Rejected{"kind", "/kind", "\"lora\"", kNo, "kind \"lora\" is unknown"},
        Rejected{"no_kind", "/kind", "", kBad, "key \"kind\" is missing"},
        Rejected{"no_placement", "/placement", "", kBad, "key \"placement\" must be a list of layers"},
        Rejected{"placement_outside", "/placement", "[3]", kBad,
                 "\"placement\": 3 is no layer of a backbone with 3"},
        Rejected{"placement_negative", "/placement", "[-1]", kBad, "\"placement\": -1"},
        Rejected{"placement_huge", "/placement", "[18446744073709551615]", kBad,
                 "\"placement\": 18446744073709551615"},
        Rejected{"placement_text", "/placement", "[\"1\"]", kBad, "\"placement\": \"1\""},
        Rejected{"placement_twice", "/placement", "[1,1]", kBad, "names a layer twice"},
        Rejected{"no_base", "/base", "", kBad, "key \"base.hidden_size\" is missing"},
        Rejected{"base_size", "/base/hidden_size", "0", kBad, "\"base.hidden_size\": 0 is no size"},
        Rejected{"base_layers", "/base/num_hidden_layers", "1e3", kBad, "\"base.num_hidden_layers\": 1000.0"},
        Rejected{"base_digest", "/base/norms_sha256", "3", kBad, "\"norms_sha256\" must be text"},
        Rejected{"cal_is_a_list", "/cal", "[]", kBad, "\"cal\" must be an object"},
        Rejected{"cal_misspelt", "/cal/num_head", "2", kBad,
                 "adapter_config.json: cal: unknown key 'num_head'; did you mean 'num_heads'?"},
        Rejected{"cal_choice", "/cal/position", "\"alibi\"", kBad, "'position' must be one of none, rope"},
        Rejected{"cal_type", "/cal/num_heads", "\"two\"", kBad, "'num_heads' must be a whole number"},
        Rejected{"cal_zero_heads", "/cal/num_heads", "0", kBad, "\"cal.num_heads\": 0 is out of range"},
        Rejected{"cal_kv_heads", "/cal/num_kv_heads", "3", kBad, "\"cal.num_heads\" 2 is no multiple"},
        Rejected{"cal_negative", "/cal/intermediate_size", "-5", kBad,
                 "\"cal.intermediate_size\": -5 is out of range"},
        Rejected{"cal_huge", "/cal/head_dim", "1000000000", kBad, "\"cal.head_dim\": 1000000000"},
        Rejected{"cal_eps", "/cal/rms_norm_eps", "-2", kBad, "\"cal.rms_norm_eps\": -2"},
        Rejected{"cal_eps_minus_one", "/cal/rms_norm_eps", "-1", kBad,
                 "\"cal.rms_norm_eps\": -1 is out of range"},
        Rejected{"cal_minus_one_head", "/cal/num_heads", "-1", kBad, "\"cal.num_heads\": -1 is out of range"},
        Rejected{"cal_big_eps", "/cal/rms_norm_eps", "2", kBad, "\"rms_norm_eps\": 2 is out of range"},
        Rejected{"span_choice", "/span/part", "\"all\"", kBad, "'part' must be one of content, message"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(AdapterConfig, OtherJsonIsNamed) {
  expect_error(ErrorCode::kCorruptData, "key \"format\" is missing", [] {
    parse_adapter_config({{"r", 8}}, "x");
  });
  expect_error(ErrorCode::kCorruptData, "not a JSON object",
               [] { parse_adapter_config(Json::array(), "x"); });
}

TEST(AdapterConfig, OddRotaryHead) {
  AdapterConfig config = small_config();
  config.cal.head_dim = 3;
  config.cal.position = CalPosition::kRope;
  expect_error(ErrorCode::kCorruptData, "\"cal.head_dim\" 3 is odd",
               [&] { parse_adapter_config(adapter_config_to_json(config), "x"); });
}

TEST(AdapterTensors, NamesAndShapes) {
  AdapterConfig config = small_config();
  config.placement = {2};
  config.cal.attention_bias = config.cal.qk_norm = true;
  std::vector<std::string> lines;
  for (const ExpectedTensor& tensor : expected_adapter_tensors(config)) {
    lines.push_back(tensor.name + " " + shape_text(tensor.shape));
  }
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "blocks.2.attn_norm.weight [4]", "blocks.2.attn.q_proj.weight [4, 4]",
                       "blocks.2.attn.k_proj.weight [2, 4]", "blocks.2.attn.v_proj.weight [2, 4]",
                       "blocks.2.attn.o_proj.weight [4, 4]", "blocks.2.attn.q_proj.bias [4]",
                       "blocks.2.attn.k_proj.bias [2]", "blocks.2.attn.v_proj.bias [2]",
                       "blocks.2.attn.q_norm.weight [2]", "blocks.2.attn.k_norm.weight [2]",
                       "blocks.2.mlp_norm.weight [4]", "blocks.2.mlp.gate_proj.weight [3, 4]",
                       "blocks.2.mlp.up_proj.weight [3, 4]", "blocks.2.mlp.down_proj.weight [4, 3]"}));
  config.cal.intermediate_size = 0;
  EXPECT_EQ(expected_adapter_tensors(config).size(), 10u);
  config.kind = AdapterKind::kParallelMlp;
  config.parallel_mlp = {.intermediate_size = 3, .rms_norm_eps = 1e-5};
  EXPECT_EQ(expected_adapter_tensors(config).size(), 4u);
}

// PAPER.md, "Sizes for checking".
TEST(AdapterTensors, ParametersOfThePapersSizes) {
  const auto parameters = [](int64_t hidden, int64_t heads, int64_t kv_heads, int64_t head_dim,
                             int64_t inner) {
    AdapterConfig config = small_config();
    config.placement = {0};
    config.base.hidden_size = hidden;
    config.cal = {heads, kv_heads, head_dim, inner, 1e-6};
    int64_t total = 0;
    for (const ExpectedTensor& tensor : expected_adapter_tensors(config)) {
      int64_t count = 1;
      for (const int64_t size : tensor.shape) count *= size;
      total += count;
    }
    return static_cast<double>(total) / 1e6;
  };
  EXPECT_NEAR(parameters(1536, 12, 2, 128, 8960), 46.8, 0.05);
  EXPECT_NEAR(parameters(4096, 32, 8, 128, 14336), 218.1, 0.05);
  EXPECT_NEAR(parameters(576, 9, 3, 64, 1536), 3.54, 0.005);
}

TEST(AdapterFolder, EveryGoldenAdapterOpensWithItsModel) {
  int64_t opened = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator("tests/golden/model")) {
    if (!entry.is_directory()) continue;
    SCOPED_TRACE(entry.path().string());
    const std::string name = entry.path().filename().string();
    const auto model = open_model("tests/golden/models/" + name.substr(0, name.find('.')));
    const AdapterFolder folder = open_adapter(entry.path(), *model, BaseMismatch::kReject);
    EXPECT_TRUE(is_resolved(folder.config));
    EXPECT_EQ(folder.weights->tensors().size(), expected_adapter_tensors(folder.config).size());
    EXPECT_EQ(folder.content_sha256.size(), 64u);
    ++opened;
  }
  EXPECT_GE(opened, 9);
}

TEST(AdapterFolder, ServesOnTheGgufOfItsModel) {
  const auto gguf = open_model("tests/golden/weights/llama-00001-of-00003.gguf");
  EXPECT_NO_THROW(open_adapter(kGolden, *gguf, BaseMismatch::kReject));
}

TEST(AdapterFolder, WritesAndReads) {
  const TempFolder folder;
  const AdapterConfig config = small_config();
  const Filled filled(config);
  write_adapter(folder / "new" / "a", config, filled.tensors,
                {{"chat_template.jinja", "T"}, {"README.md", "R"}});
  const AdapterFolder read = open_adapter(folder / "new" / "a");
  EXPECT_EQ(read.config.cal, config.cal);
  EXPECT_EQ(read.chat_template, "T");
  EXPECT_EQ(read.weights->tensors().size(), filled.tensors.size());
  EXPECT_EQ(test::read_bytes(folder / "new" / "a" / "README.md"), "R");
}

TEST(AdapterFolder, ReplacesTheAdapterAndKeepsOtherFiles) {
  const TempFolder folder;
  const fs::path path = folder / "run";
  test::write_bytes(path / "checkpoints" / "step-1", "state");
  test::write_bytes(path / "metrics.jsonl", "{}\n");
  const AdapterConfig config = small_config();
  write_adapter(path, config, Filled(config, 1.0f).tensors, {});
  const std::string first = open_adapter(path).content_sha256;
  write_adapter(path, config, Filled(config, 2.0f).tensors, {});
  EXPECT_NE(open_adapter(path).content_sha256, first);
  EXPECT_EQ(read_as_float(open_adapter(path).weights->tensors().front()).front(), 2.0f);
  EXPECT_EQ(test::read_bytes(path / "checkpoints" / "step-1"), "state");
  EXPECT_EQ(test::read_bytes(path / "metrics.jsonl"), "{}\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "a staging folder is left";
}

TEST(AdapterFolder, AFailedWriteLeavesTheOldAdapter) {
  const TempFolder folder;
  const AdapterConfig config = small_config();
  write_adapter(folder / "a", config, Filled(config, 1.0f).tensors, {});
  const std::string before = open_adapter(folder / "a").content_sha256;
  std::vector<TensorToWrite> broken = Filled(config).tensors;
  broken.front().data = {};
  EXPECT_THROW(write_adapter(folder / "a", config, broken, {}), Error);
  EXPECT_EQ(open_adapter(folder / "a").content_sha256, before);
}

TEST(AdapterFolder, EqualContentEqualHash) {
  const TempFolder folder;
  AdapterConfig config = small_config();
  const Filled filled(config);
  write_adapter(folder / "a", config, filled.tensors, {{"README.md", "one"}});
  config.base_model_name_or_path = "elsewhere";
  std::vector<TensorToWrite> reversed(filled.tensors.rbegin(), filled.tensors.rend());
  write_adapter(folder / "b", config, reversed, {{"README.md", "two"}});
  EXPECT_EQ(open_adapter(folder / "a").content_sha256, open_adapter(folder / "b").content_sha256);
  config.cal.mlp_scope = MlpScope::kAnchored;
  write_adapter(folder / "c", config, filled.tensors, {});
  EXPECT_NE(open_adapter(folder / "a").content_sha256, open_adapter(folder / "c").content_sha256);
}

TEST(AdapterFolder, AllTensorFaultsAtOnce) {
  const TempFolder folder;
  const AdapterConfig config = small_config();
  Filled filled(config);
  std::swap(filled.tensors[1].shape[0], filled.tensors[10].shape[0]);
  filled.tensors[0].name = "blocks.7.attn_norm.weight";
  filled.tensors[1].shape = {2, 8};
  filled.tensors[10].shape = {2, 8};
  write_adapter(folder / "a", config, filled.tensors, {});
  expect_error(ErrorCode::kCorruptData,
               "adapter_model.safetensors: 4 faults in its tensors: blocks.1.attn_norm.weight is missing; "
               "blocks.1.attn.q_proj.weight has shape [2, 8], expected [4, 4]; "
               "blocks.2.attn.q_proj.weight has shape [2, 8], expected [4, 4]; blocks.7.attn_norm.weight is "
               "unexpected",
               [&] { open_adapter(folder / "a"); });
}

TEST(AdapterFolder, DoublesAreNoAdapter) {
  const TempFolder folder;
  AdapterConfig config = small_config();
  Filled filled(config);
  const std::vector<double> doubles(4);
  filled.tensors[0] = {filled.tensors[0].name, DType::kF64, {4}, std::as_bytes(std::span(doubles))};
  write_adapter(folder / "a", config, filled.tensors, {});
  expect_error(ErrorCode::kUnsupported, "blocks.1.attn_norm.weight has type F64",
               [&] { open_adapter(folder / "a"); });
}

TEST(AdapterFolder, ValuesThatAreNotFiniteAreDamage) {
  const TempFolder folder;
  const AdapterConfig config = small_config();
  const uint16_t kOne[] = {0x3f80, 0x3c00};                            // bfloat16, float16
  const uint16_t kBroken[][2] = {{0x7f80, 0x7fc0}, {0xfc00, 0x7e00}};  // infinite, no number
  for (const int half : {0, 1}) {
    for (const uint16_t broken : kBroken[half]) {
      Filled filled(config);
      std::vector<uint16_t> values(4, kOne[half]);
      filled.tensors[9] = {filled.tensors[9].name,
                           half == 0 ? DType::kBF16 : DType::kF16,
                           {4},
                           std::as_bytes(std::span(values))};
      write_adapter(folder / "a", config, filled.tensors, {});
      open_adapter(folder / "a");
      values[3] = broken;
      write_adapter(folder / "a", config, filled.tensors, {});
      expect_error(ErrorCode::kCorruptData, "blocks.2.attn_norm.weight holds infinite values or NaN",
                   [&] { open_adapter(folder / "a"); });
    }
  }
  for (const float broken :
       {-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    write_adapter(folder / "b", config, Filled(config, broken).tensors, {});
    expect_error(ErrorCode::kCorruptData, "blocks.1.attn.k_proj.weight holds infinite values or NaN",
                 [&] { open_adapter(folder / "b"); });
  }
}

TEST(AdapterFolder, MissingFiles) {
  const TempFolder folder;
  expect_error(ErrorCode::kNotFound, "holds no adapter_config.json", [&] { open_adapter(folder.path()); });
  test::write_bytes(folder / "adapter_config.json", to_json_text(adapter_config_to_json(small_config())));
  expect_error(ErrorCode::kNotFound, "adapter_model.safetensors", [&] { open_adapter(folder.path()); });
}

TEST(AdapterFits, AnotherModelIsRejected) {
  const auto qwen = open_model("tests/golden/models/qwen3");
  expect_error(
      ErrorCode::kCorruptData,
      "the adapter is for another model than tests/golden/models/qwen3: vocab_size 288 (the model has 287), "
      "model_type llama (the model has qwen3)",
      [&] { open_adapter(kGolden, *qwen, BaseMismatch::kAllow); });
}

TEST(AdapterFits, OtherNormsAreRejectedUnlessAllowed) {
  const auto model = open_model(kModel);
  AdapterConfig config = parse_adapter_config(golden_json(), "x");
  config.base.norms_sha256 = std::string(64, '0');
  expect_error(ErrorCode::kCorruptData, "--allow-base-mismatch",
               [&] { check_adapter_fits(config, *model, BaseMismatch::kReject); });
  EXPECT_NO_THROW(check_adapter_fits(config, *model, BaseMismatch::kAllow));
  config.base.norms_sha256.reset();
  EXPECT_NO_THROW(check_adapter_fits(config, *model, BaseMismatch::kReject));
  config.base.model_type = "mistral";
  EXPECT_NO_THROW(check_adapter_fits(config, *model, BaseMismatch::kReject));
}

TEST(AdapterFits, ShapesAreComparedEvenWhenAMismatchIsAllowed) {
  const TempFolder folder;
  fs::copy(kGolden, folder / "a");
  Json json = golden_json();
  json["cal"]["head_dim"] = 16;
  test::write_bytes(folder / "a" / "adapter_config.json", to_json_text(json));
  const auto model = open_model(kModel);
  expect_error(ErrorCode::kCorruptData, "blocks.1.attn.q_proj.weight has shape [32, 32], expected [64, 32]",
               [&] { open_adapter(folder / "a", *model, BaseMismatch::kAllow); });
}

TEST(AdapterFits, IdentityOfABackbone) {
  const auto model = open_model(kModel);
  const BaseIdentity identity = base_identity(*model);
  EXPECT_EQ(identity.model_type, "llama");
  EXPECT_EQ(identity.hidden_size, 32);
  EXPECT_EQ(identity.num_hidden_layers, 3);
  EXPECT_EQ(identity.vocab_size, 288);
  EXPECT_EQ(identity.norms_sha256, golden_json()["base"]["norms_sha256"].get<std::string>());
}

}  // namespace
}  // namespace calyrex::weights
