// The training configuration: defaults, every kind of mistake, differences, and the page made from its field
// table.
#include "calyrex/train/config.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "calyrex/base/config_edit.h"
#include "calyrex/base/error.h"

namespace calyrex::train {
namespace {

constexpr const char* kMinimal = "data: {train: [{path: a.jsonl}]}\noutput: runs/x\n";

LoadedConfig parse(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  ConfigNode tree = parse_yaml(yaml, "c.yaml");
  for (const std::string& assignment : overrides) apply_override(tree, assignment);
  return parse_train_config(std::move(tree));
}

struct Failure {
  ErrorCode code;
  std::string message;
};

Failure failure_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    parse(yaml, overrides);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::kInternal, "no error"};
}

TEST(TrainConfig, DefaultsAreTheDocumentedOnes) {
  const TrainConfig config = parse(kMinimal).config;
  EXPECT_EQ(config.model, "default");
  EXPECT_EQ(config.adapter.kind, TrainedKind::kCal);
  EXPECT_EQ(placement_text(config.adapter.placement), "late8th");
  EXPECT_EQ(config.adapter.init_std, 0.02);
  EXPECT_EQ(config.adapter.span, weights::SpanConfig{});
  EXPECT_EQ(config.data.train[0].weight, 1.0);
  EXPECT_EQ(config.data.max_tokens, 2048);
  EXPECT_EQ(config.data.labels, Labels::kAll);
  EXPECT_EQ(config.train.epochs, 1);
  EXPECT_FALSE(config.train.max_steps.has_value());
  EXPECT_EQ(config.train.batch_tokens, 4096);
  EXPECT_FALSE(config.train.micro_batch_tokens.has_value());
  EXPECT_EQ(config.train.learning_rate, 2e-4);
  EXPECT_EQ(config.train.schedule, ScheduleKind::kCosine);
  EXPECT_EQ(config.train.warmup_ratio, 0.03);
  EXPECT_EQ(config.train.betas, (std::array{0.9, 0.999}));
  EXPECT_EQ(config.train.eps, 1e-8);
  EXPECT_EQ(config.train.grad_clip, 1.0);
  EXPECT_EQ(config.train.checkpoint_every, 500);
  EXPECT_EQ(config.train.keep_checkpoints, 2);
  EXPECT_EQ(config.train.save_dtype, SaveDtype::kBFloat16);
}

TEST(TrainConfig, WrittenAndReadAgainIsTheSame) {
  const LoadedConfig loaded = parse(
      kMinimal, {"adapter.placement=[25, 27]", "train.micro_batch_tokens=auto", "train.dtype=f32",
                 "chat.kwargs={enable_thinking: false}", "train.max_steps=7", "data.eval=[{path: b.jsonl}]"});
  const Json json = write_fields(loaded.config);
  const LoadedConfig again = parse_train_config(config_from_json(json, "json"));
  EXPECT_EQ(write_fields(again.config), json);
  EXPECT_EQ(placement_text(again.config.adapter.placement), "[25,27]");
  EXPECT_EQ(again.config.train.dtype, ComputeDtype::kFloat32);
  EXPECT_EQ(json["train"]["dtype"], "float32");
}

TEST(TrainConfig, MistakesNamePlaceKeyAndRemedy) {
  struct Case {
    std::string yaml;
    std::string message;
  };
  const std::string minimal = kMinimal;
  const std::vector<Case> cases = {
      {minimal + "trian: {}\n", "c.yaml:3:1: unknown key 'trian'; did you mean 'train'?"},
      {minimal + "train: {leraning_rate: 1e-4}\n",
       "c.yaml:3:9: unknown key 'train.leraning_rate'; did you mean 'learning_rate'?"},
      {minimal + "train: {epochs: two}\n", "c.yaml:3:9: 'train.epochs' must be a whole number, found 'two'"},
      {minimal + "train: {epochs: 0}\n", "c.yaml:3:9: 'train.epochs' must be between 1 and 1000000, found 0"},
      {minimal + "train: {eps: 0.0}\n", "c.yaml:3:9: 'train.eps' must be above 0 and at most 1, found 0.0"},
      {minimal + "train: {betas: [0.9, 1.0]}\n",
       "c.yaml:3:9: 'train.betas' must be two numbers in [0, 1), found [0.9,1.0]"},
      {minimal + "train: {schedule: cosin}\n",
       "c.yaml:3:9: 'train.schedule' must be one of cosine, linear, constant, found 'cosin'"},
      {minimal + "train: {eval_every: 5}\n",
       "c.yaml:3:9: 'train.eval_every' must be 0 unless data.eval names a file, found 5"},
      {minimal + "adapter: {placement: {}}\n",
       "c.yaml:3:11: 'adapter.placement' must be a preset such as late8th, or a list of layer indices, found "
       "{}"},
      {"data: {train: [{path: a, weight: 0}]}\noutput: x\n",
       "c.yaml:1:26: 'data.train[0].weight' must be between 0.001 and 1000, found 0"},
      {"data: {train: []}\noutput: x\n",
       "c.yaml:1:8: 'data.train' must be a list of {path, weight} with at least one file, found []"},
      {"data: {train: [{path: a}]}\n",
       "c.yaml:1:1: 'output' must be the folder to write to, e.g. output: runs/first"},
      {"data: {train: [{path: a, weight: 1e-9}]}\noutput: x\n",
       "c.yaml:1:26: 'data.train[0].weight' must be between 0.001 and 1000, found 1e-09"},
      {minimal + "chat: {date: yesterday}\n",
       "c.yaml:3:8: 'chat.date' must be a date such as 2026-11-29, found \"yesterday\""},
      {minimal + "chat: {date: 2026-02-30}\n",
       "c.yaml:3:8: 'chat.date' must be a date such as 2026-11-29, found \"2026-02-30\""},
  };
  for (const Case& one : cases) {
    const Failure failure = failure_of(one.yaml);
    EXPECT_EQ(failure.code, ErrorCode::kInvalidArgument) << one.yaml;
    EXPECT_EQ(failure.message, one.message) << one.yaml;
  }
}

TEST(TrainConfig, AnOverrideIsNamedAsThePlace) {
  const Failure failure = failure_of(kMinimal, {"train.grad_clip=-1"});
  EXPECT_EQ(failure.message,
            "command line, train.grad_clip: 'train.grad_clip' must be between 0 and 1000000000, found -1");
}

TEST(TrainConfig, WhatIsNotImplementedIsRefusedByName) {
  for (const char* assignment : {"adapter.lora.dropout=0.1", "train.objective=dpo"}) {
    const Failure failure = failure_of(kMinimal, {assignment});
    const std::string key = std::string(assignment).substr(0, std::string(assignment).find('='));
    EXPECT_EQ(failure.code, ErrorCode::kUnsupported) << assignment;
    EXPECT_NE(failure.message.find("'" + key + "'"), std::string::npos) << failure.message;
  }
}

TEST(TrainConfig, SettingsThatContradictTheKindAreNamed) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"adapter.kind=lora", "adapter.init=copy_backbone"}, "'adapter.init' must be normal for kind lora"},
      {{"adapter.kind=full", "adapter.init_from=x"}, "'adapter.init_from' must be null for kind full"},
      {{"adapter.kind=full", "adapter.match_params={kind: cal}"}, "'adapter.match_params' must be null"},
      {{"adapter.kind=lora", "adapter.lora.rank=8", "adapter.match_params={kind: cal}"},
       "'adapter.lora.rank' must be left out beside adapter.match_params"},
      {{"adapter.cal.intermediate_size=8", "adapter.match_params={kind: cal}"},
       "'adapter.cal.intermediate_size' must be left out"},
      {{"adapter.match_params={kind: cal, lora: {rnk: 4}}"}, "did you mean 'rank'?"},
      {{"adapter.kind=lora", "adapter.lora.target_modules=q_proj"},
       "'adapter.lora.target_modules' must be all-linear"},
      {{"adapter.kind=lora", "adapter.lora.alpha=0"}, "'adapter.lora.alpha' must be above 0"},
  };
  for (const auto& [overrides, message] : cases) {
    const Failure failure = failure_of(kMinimal, overrides);
    EXPECT_EQ(failure.code, ErrorCode::kInvalidArgument) << failure.message;
    EXPECT_NE(failure.message.find(message), std::string::npos) << failure.message;
  }
}

TEST(TrainConfig, AMisspeltTargetNamesTheNearest) {
  const auto model = weights::open_model("tests/golden/models/llama");
  try {
    make_adapter_config(parse_adapter_settings({"kind=lora", "lora.target_modules=[q_porj]"}), *model);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("did you mean 'q_proj'?"), std::string::npos) << error.what();
  }
}

TEST(TrainConfig, GivenKeysAreThoseWithAValue) {
  const LoadedConfig loaded = parse(kMinimal, {"adapter.cal.num_heads=null", "adapter.cal.head_dim=16"});
  EXPECT_TRUE(loaded.given.contains("adapter.cal.head_dim"));
  EXPECT_FALSE(loaded.given.contains("adapter.cal.num_heads"));
  EXPECT_FALSE(loaded.given.contains("train.seed"));
}

TEST(TrainConfig, DifferencesNameEveryKeyButTheOutput) {
  const Json before = write_fields(parse(kMinimal).config);
  const Json after =
      write_fields(parse(kMinimal, {"train.seed=1", "output=elsewhere", "adapter.placement=all"}).config);
  EXPECT_TRUE(config_differences(before, before).empty());
  const std::vector<std::string> expected = {"adapter.placement: \"late8th\" -> \"all\"",
                                             "train.seed: 0 -> 1"};
  EXPECT_EQ(config_differences(before, after), expected);
}

TEST(TrainConfig, AdapterSettingsAloneAreChecked) {
  EXPECT_EQ(parse_adapter_settings({"cal.intermediate_size=128"}).cal.intermediate_size, 128);
  try {
    parse_adapter_settings({"cal.intermediat_size=128"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'intermediate_size'?"), std::string::npos)
        << error.what();
  }
}

TEST(TrainConfig, SizesThatDoNotFitAreTheSettingsFault) {
  const auto model = weights::open_model("tests/golden/models/llama");
  const std::pair<const char*, const char*> cases[] = {
      {"cal.num_heads=3", "\"cal.num_heads\" 3 is no multiple of \"cal.num_kv_heads\" 2"},
      {"cal.num_heads=1000000", "\"cal.num_heads\": 1000000 is out of range"},
  };
  for (const auto& [assignment, expected] : cases) {
    try {
      make_adapter_config(parse_adapter_settings({assignment}), *model);
      ADD_FAILURE() << assignment;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find("adapter_config.json"), std::string::npos) << error.what();
    }
  }
}

TEST(TrainConfig, EveryConfigurationThatIsShippedReads) {
  int read = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("configs")) {
    // Studies are files of another kind.
    if (entry.is_directory() || entry.path().parent_path().filename() == "study") continue;
    // The demo's file leaves data and output to the command.
    const bool demo = entry.path().filename() == "demo.yaml";
    const std::vector<std::string> overrides =
        demo ? std::vector<std::string>{"output=x", "data.train=[{path: a}]"} : std::vector<std::string>{};
    EXPECT_NO_THROW(load_train_config(entry.path(), overrides)) << entry.path();
    ++read;
  }
  EXPECT_GE(read, 8);
}

TEST(TrainConfig, ThePageInTheDocsIsMadeFromTheFieldTable) {
  std::ifstream file("docs/configuration.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), document_train_config())
      << "write it anew: calyrex train --settings > docs/configuration.md";
}

}  // namespace
}  // namespace calyrex::train
