// PEFT's files: what is read, what is refused by name, what is written.
#include "calyrex/weights/peft_folder.h"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/file.h"
#include "calyrex/weights/adapter_folder.h"
#include "tests/weights/test_files.h"

namespace calyrex::weights {
namespace {
namespace fs = std::filesystem;
using test::expect_error;

Json minimal() {
  return {{"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 8}, {"target_modules", {"q_proj"}}};
}

const LoraModule& module_named(const std::vector<LoraModule>& modules, const std::string& name) {
  for (const LoraModule& module : modules) {
    if (module.name == name) return module;
  }
  throw Error(ErrorCode::kNotFound, name);
}

TEST(PeftFolder, NamesMatchAsInPeft) {
  EXPECT_TRUE(names_module("q_proj", "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(names_module("model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(names_module("layers.1.mlp.up_proj", "model.layers.1.mlp.up_proj"));
  EXPECT_FALSE(names_module("layers.1.mlp.up_proj", "model.layers.11.mlp.up_proj"));
  EXPECT_FALSE(names_module("proj", "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(names_module("^model.layers.0.mlp.up_proj", "model.layers.0.mlp.up_proj"));
  EXPECT_FALSE(names_module("^up_proj", "model.layers.0.mlp.up_proj"));
}

TEST(PeftFolder, RanksAndScalesOfAnAdapterThatPeftMade) {
  const auto model = open_model("tests/golden/models/qwen2");
  const AdapterFolder folder =
      open_adapter("tests/golden/model/qwen2.lora_patterns", *model, BaseMismatch::kReject);
  const std::vector<LoraModule>& modules = folder.config.lora_modules;
  EXPECT_EQ(modules.size(), 15u);
  EXPECT_EQ(folder.config.placement, (std::vector<int64_t>{0, 1, 2}));
  const LoraModule& q = module_named(modules, "model.layers.2.self_attn.q_proj");
  EXPECT_EQ(q.rank, 5);
  EXPECT_DOUBLE_EQ(q.scale, 6.0 / 5.0);
  EXPECT_EQ(module_named(modules, "model.layers.0.self_attn.o_proj").rank, 1);
  EXPECT_DOUBLE_EQ(module_named(modules, "model.layers.0.self_attn.o_proj").scale, 7.0);
  EXPECT_EQ(module_named(modules, "model.layers.1.self_attn.o_proj").rank, 3);
  EXPECT_EQ(module_named(modules, "model.layers.1.mlp.down_proj").rank, 2);
  EXPECT_DOUBLE_EQ(module_named(modules, "model.layers.2.mlp.gate_proj").scale, 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(module_named(modules, "model.layers.1.mlp.gate_proj").scale, 2.0);
}

TEST(PeftFolder, RankStabilisedScaleAndChosenLayers) {
  const auto qwen = open_model("tests/golden/models/qwen3");
  const AdapterFolder stable =
      open_adapter("tests/golden/model/qwen3.lora_rslora", *qwen, BaseMismatch::kReject);
  EXPECT_DOUBLE_EQ(stable.config.lora_modules.front().scale, 4.0 / std::sqrt(6.0));
  const auto mistral = open_model("tests/golden/models/mistral");
  const AdapterFolder late =
      open_adapter("tests/golden/model/mistral.lora_late", *mistral, BaseMismatch::kReject);
  EXPECT_EQ(late.config.placement, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(open_adapter("tests/golden/model/mistral.lora_late").config.placement, late.config.placement);
}

TEST(PeftFolder, WrittenAndReadAgainIsTheSame) {
  for (const char* name :
       {"llama.lora_all", "qwen2.lora_patterns", "qwen3.lora_rslora", "mistral.lora_late"}) {
    const fs::path folder = fs::path("tests/golden/model") / name;
    const LoraConfig config = parse_peft_config(read_json_file(folder / "adapter_config.json"), name);
    EXPECT_EQ(parse_peft_config(peft_config_to_json(config, "base"), "again"), config) << name;
  }
  LoraConfig odd{.rank = 7, .alpha = 2.5, .dropout = 0.25, .use_rslora = true, .target_modules = {"q_proj"}};
  EXPECT_EQ(parse_peft_config(peft_config_to_json(odd, "base"), "again"), odd);
}

TEST(PeftFolder, AllLinearIsTheSevenProjections) {
  Json json = minimal();
  json["target_modules"] = "all-linear";
  EXPECT_EQ(parse_peft_config(json, "x").target_modules, all_linear_targets());
}

struct Lacking {
  const char* key;
  const char* value;
  const char* message;
};

class LackingFeature : public testing::TestWithParam<Lacking> {};

TEST_P(LackingFeature, IsRefusedByName) {
  Json json = minimal();
  json[GetParam().key] = Json::parse(GetParam().value);
  const std::string named = "\"" + std::string(GetParam().key) + "\"";
  expect_error(ErrorCode::kUnsupported, named, [&] { parse_peft_config(json, "x"); });
  expect_error(ErrorCode::kUnsupported, GetParam().message, [&] { parse_peft_config(json, "x"); });
}

INSTANTIATE_TEST_SUITE_P(
    All, LackingFeature,
    testing::Values(
        Lacking{"use_dora", "true", "DoRA"}, Lacking{"modules_to_save", R"(["lm_head"])", "saved whole"},
        Lacking{"bias", R"("lora_only")", "biases"}, Lacking{"lora_bias", "true", "biases of the update"},
        Lacking{"fan_in_fan_out", "true", "(in, out)"},
        Lacking{"target_modules", R"(".*\\.(q|v)_proj")", "regular expression"},
        Lacking{"rank_pattern", R"({".*q_proj": 4})", "regular expressions"},
        Lacking{"alpha_pattern", R"({"(q|k)_proj": 4})", "regular expressions"},
        Lacking{"exclude_modules", R"(["q_proj"])", "leaving modules out"},
        Lacking{"layers_pattern", R"("h")", "list of layers"},
        Lacking{"layer_replication", "[[0, 2]]", "repeated layers"},
        Lacking{"trainable_token_indices", "[3]", "embedding"},
        Lacking{"target_parameters", R"(["a.weight"])", "bare parameters"},
        Lacking{"alora_invocation_tokens", "[3]", "activated LoRA"}, Lacking{"use_qalora", "true", "QALoRA"},
        Lacking{"use_bdlora", R"({"nblocks": 2})", "block-diagonal"},
        Lacking{"init_lora_weights", R"("pissa_niter_4")", "changes the backbone"},
        Lacking{"init_lora_weights", R"("olora")", "changes the backbone"},
        Lacking{"task_type", R"("SEQ_CLS")", "CAUSAL_LM"}),
    [](const auto& info) { return std::string(info.param.key) + "_" + std::to_string(info.index); });

TEST(PeftFolder, WhatChangesNothingIsAccepted) {
  Json json = minimal();
  json["loftq_config"] = Json::object();
  json["megatron_core"] = "megatron.core";
  json["init_lora_weights"] = "gaussian";
  json["modules_to_save"] = nullptr;
  json["lora_dropout"] = 0.1;
  json["some_new_key"] = false;
  EXPECT_EQ(parse_peft_config(json, "x").dropout, 0.1);
}

TEST(PeftFolder, OtherTypesAndDamagedValues) {
  expect_error(ErrorCode::kUnsupported, "a PEFT adapter of type \"LOHA\"", [] {
    parse_adapter_config({{"peft_type", "LOHA"}}, "x");
  });
  const auto reject = [](const char* key, Json value, const char* message) {
    Json json = minimal();
    json[key] = std::move(value);
    expect_error(ErrorCode::kCorruptData, message, [&] { parse_peft_config(json, "x"); });
  };
  reject("r", 0, "\"r\" must be a rank");
  reject("r", 1e9, "\"r\" must be a rank");
  reject("lora_alpha", "two", "\"lora_alpha\" must be a number");
  reject("lora_dropout", 1.0, "\"lora_dropout\"");
  reject("target_modules", Json::array(), "\"target_modules\" must be a list");
  reject("target_modules", Json::array({1}), "\"target_modules\" must be a list");
  reject("rank_pattern", Json::array({1}), "\"rank_pattern\" must be an object");
  reject("rank_pattern", {{"q_proj", 0}}, "\"rank_pattern\" must be a rank");
  reject("layers_to_transform", {-1}, "\"layers_to_transform\"");
  reject("use_rslora", 1, "\"use_rslora\" must be true or false");
}

TEST(PeftFolder, TargetsOutsideTheLayers) {
  const ModelConfig& model = open_model("tests/golden/models/llama")->config();
  const auto modules = [&](std::vector<std::string> targets) {
    return lora_modules({.target_modules = std::move(targets)}, model);
  };
  expect_error(ErrorCode::kUnsupported, "LoRA on lm_head", [&] { modules({"q_proj", "lm_head"}); });
  expect_error(ErrorCode::kUnsupported, "LoRA on model.embed_tokens", [&] { modules({"embed_tokens"}); });
  expect_error(ErrorCode::kUnsupported, "names no linear layer", [&] { modules({"query"}); });
  EXPECT_EQ(modules({"q_proj", "query"}).size(), 3u);
}

TEST(PeftFolder, TensorsAloneAreChecked) {
  const std::vector<std::byte> bytes(64);
  const auto tensor = [&](const char* name, std::vector<int64_t> shape) {
    return TensorView{.name = name, .dtype = DType::kF32, .shape = std::move(shape), .data = bytes};
  };
  const std::string prefix = "base_model.model.model.layers.1.mlp.up_proj.";
  const TensorView a = tensor((prefix + "lora_A.weight").c_str(), {2, 4});
  const TensorView b = tensor((prefix + "lora_B.weight").c_str(), {3, 2});
  EXPECT_EQ(check_lora_tensors("x", {a, b}), (std::vector<int64_t>{1}));
  expect_error(ErrorCode::kCorruptData, "up_proj lacks lora_B", [&] { check_lora_tensors("x", {a}); });
  expect_error(ErrorCode::kCorruptData, "rank 2 in lora_A and 3 in lora_B", [&] {
    check_lora_tensors("x", {a, tensor((prefix + "lora_B.weight").c_str(), {3, 3})});
  });
  expect_error(ErrorCode::kCorruptData, "is no update of a linear layer", [&] {
    check_lora_tensors("x", {a, b, tensor("base_model.model.lm_head.weight", {2, 2})});
  });
  expect_error(ErrorCode::kCorruptData, "there are none", [] { check_lora_tensors("x", {}); });
}

TEST(PeftFolder, TensorsOfOtherShapesThanTheModelsAreNamed) {
  expect_error(ErrorCode::kCorruptData, "lora_B.weight has shape", [] {
    open_adapter("tests/golden/model/qwen2.lora_patterns", *open_model("tests/golden/models/qwen3"),
                 BaseMismatch::kReject);
  });
}

TEST(PeftFolder, PickledWeightsAreNamed) {
  const test::TempFolder folder;
  test::write_bytes(folder / "adapter_config.json", to_json_text(minimal()));
  test::write_bytes(folder / "adapter_model.bin", "x");
  expect_error(ErrorCode::kUnsupported, "adapter_model.bin, which can run code",
               [&] { open_adapter(folder.path()); });
}

TEST(PeftFolder, OurWordsLieBesidePeftsFile) {
  const test::TempFolder folder;
  const auto model = open_model("tests/golden/models/llama");
  const AdapterFolder peft = open_adapter("tests/golden/model/llama.lora_all", *model, BaseMismatch::kReject);
  EXPECT_EQ(peft.config.base.hidden_size, 0);
  AdapterConfig config = peft.config;
  config.base = base_identity(*model);
  config.span.part = SpanPart::kMessage;
  config.chat_date = "2026-11-29";
  std::vector<TensorToWrite> tensors;
  for (const TensorView& view : peft.weights->tensors()) {
    tensors.push_back({.name = view.name, .dtype = view.dtype, .shape = view.shape, .data = view.data});
  }
  write_adapter(folder / "out", config, tensors, {});
  EXPECT_FALSE(read_json_file(folder / "out/adapter_config.json").contains("format"));
  const AdapterFolder again = open_adapter(folder / "out", *model, BaseMismatch::kReject);
  EXPECT_EQ(again.config.lora, config.lora);
  EXPECT_EQ(again.config.span, config.span);
  EXPECT_EQ(again.config.chat_date, config.chat_date);
  EXPECT_EQ(again.config.base.norms_sha256, config.base.norms_sha256);
  EXPECT_NE(again.content_sha256, peft.content_sha256);
  config.base.norms_sha256 = std::string(64, '0');
  write_adapter(folder / "other", config, tensors, {});
  expect_error(ErrorCode::kCorruptData, "norms_sha256 differs",
               [&] { open_adapter(folder / "other", *model, BaseMismatch::kReject); });
}

}  // namespace
}  // namespace calyrex::weights
