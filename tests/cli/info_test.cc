// `model info` and `adapter info`, run in this process on the golden models.
#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "calyrex/base/json.h"
#include "calyrex/cli/commands.h"
#include "calyrex/cli/info_table.h"

namespace calyrex::cli {
namespace {

/// What a command line prints to stdout.
std::string output_of(const std::string& arguments) {
  CLI::App app;
  Run run;
  add_model_info_command(*app.add_subcommand("model"), run);
  add_adapter_info_command(*app.add_subcommand("adapter"), run);
  app.parse(arguments, /*program_name_included=*/false);
  testing::internal::CaptureStdout();
  try {
    run();
  } catch (...) {
    testing::internal::GetCapturedStdout();
    throw;
  }
  return testing::internal::GetCapturedStdout();
}

TEST(InfoTable, Numbers) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(3539520), "3.54 M");
  EXPECT_EQ(format_count(134515008), "134.5 M");
  EXPECT_EQ(format_count(1090519040), "1.09 B");
  EXPECT_EQ(format_bytes(812), "812 bytes");
  EXPECT_EQ(format_bytes(98362432), "98.4 MB");
}

TEST(ModelInfo, Json) {
  const Json info = parse_json(output_of("model info tests/golden/models/mistral --json"), "output");
  EXPECT_EQ(info["model_type"], "mistral");
  EXPECT_EQ(info["format"], "safetensors");
  EXPECT_EQ(info["num_hidden_layers"], 3);
  EXPECT_EQ(info["files"].size(), 2u);
  EXPECT_EQ(info["types"]["BF16"]["parameters"], info["parameters"]);
  EXPECT_EQ(info["norms_sha256"], "5921f6f12758335c66478e6ba03ecfe2c6a0d9bff3a92a2416d1e5110d07e279");
}

TEST(ModelInfo, Table) {
  const std::string text = output_of("model info tests/golden/weights/qwen3.gguf");
  EXPECT_NE(text.find("Format         gguf, 55.0 kB in 1 file\n"), std::string::npos) << text;
  EXPECT_NE(text.find("               Q8_0: 19 tensors, 35.3 k values, 37.5 kB\n"), std::string::npos)
      << text;
}

TEST(AdapterInfo, JsonWithAndWithoutTheModel) {
  const std::string adapter = "adapter info tests/golden/model/llama.rope --json";
  const Json alone = parse_json(output_of(adapter), "output");
  EXPECT_EQ(alone["placement"], Json::array({0, 2}));
  EXPECT_TRUE(alone["cal"]["num_heads"].is_null());  // as the backbone
  EXPECT_EQ(alone["cal"]["position"], "rope");
  EXPECT_FALSE(alone.contains("share_of_backbone"));
  const Json fitted = parse_json(output_of(adapter + " --model tests/golden/models/llama"), "output");
  EXPECT_EQ(fitted["cal"]["num_heads"], 4);
  EXPECT_EQ(
      fitted["blocks"][0]["parameters"].get<int64_t>() + fitted["blocks"][1]["parameters"].get<int64_t>(),
      fitted["parameters"].get<int64_t>());
  EXPECT_GT(fitted["share_of_backbone"].get<double>(), 0.0);
}

TEST(AdapterInfo, Table) {
  const std::string text = output_of("adapter info tests/golden/model/mistral.own_heads");
  EXPECT_NE(text.find("Placement        after layers [0,1]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("num_heads 3, num_kv_heads 1, head_dim 6, intermediate_size 40"), std::string::npos)
      << text;
}

TEST(AdapterInfo, LoraThatPeftMade) {
  const std::string adapter = "adapter info tests/golden/model/mistral.lora_late";
  const Json alone = parse_json(output_of(adapter + " --json"), "output");
  EXPECT_EQ(alone["kind"], "lora");
  EXPECT_EQ(alone["placement"], Json::array({1, 2}));
  EXPECT_EQ(alone["lora"]["rank"], 2);
  EXPECT_EQ(alone["lora"]["layers"], Json::array({1, 2}));
  const std::string text = output_of(adapter + " --model tests/golden/models/mistral");
  EXPECT_NE(text.find("in layers [1,2]\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" trained, "), std::string::npos) << text;
  EXPECT_NE(text.find("% of the backbone's"), std::string::npos) << text;
}

TEST(AdapterInfo, AnotherModelIsAnError) {
  try {
    output_of("adapter info tests/golden/model/llama.default --model tests/golden/models/qwen3");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.code()), 4);
  }
}

}  // namespace
}  // namespace calyrex::cli
