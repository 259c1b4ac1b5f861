#include <cmath>

#include "calyrex/base/json.h"
#include "calyrex/weights/model_config.h"
#include "tests/weights/test_files.h"

namespace calyrex::weights {
namespace {

using test::expect_error;

Json config_of(const char* model_type) {
  return {{"model_type", model_type},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 2},
          {"vocab_size", 100},
          {"rms_norm_eps", 1e-5},
          {"max_position_embeddings", 1024},
          {"tie_word_embeddings", false},
          {"sliding_window", nullptr},
          {"hidden_act", "silu"}};
}

ModelConfig parse(const Json& config) { return parse_hf_config(config, "config.json"); }

TEST(HfConfig, Qwen25AsPublished) {
  const ModelConfig config =
      parse(parse_json(R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
      "bos_token_id": 151643, "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 1536,
      "initializer_range": 0.02, "intermediate_size": 8960, "max_position_embeddings": 32768,
      "max_window_layers": 21, "model_type": "qwen2", "num_attention_heads": 12, "num_hidden_layers": 28,
      "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
      "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.43.1", "use_cache": true,
      "use_sliding_window": false, "vocab_size": 151936})",
                       "x"));
  EXPECT_EQ(config.family, ModelFamily::kQwen2);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.rope.theta, 1e6);
  EXPECT_TRUE(config.attention_bias);
  EXPECT_TRUE(config.tied_head);
  EXPECT_FALSE(config.qk_norm);
}

TEST(HfConfig, Llama31AsPublished) {
  const ModelConfig config = parse(parse_json(R"({"attention_bias": false, "bos_token_id": 128000,
      "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu", "hidden_size": 4096,
      "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
      "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1,
      "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
      "tie_word_embeddings": false, "vocab_size": 128256})",
                                              "x"));
  EXPECT_EQ(config.family, ModelFamily::kLlama);
  EXPECT_EQ(config.rope.scaling, RopeConfig::Scaling::kLlama3);
  EXPECT_EQ(config.rope.factor, 8.0);
  EXPECT_EQ(config.rope.original_max_positions, 8192);
  EXPECT_FALSE(config.tied_head);
  EXPECT_FALSE(config.attention_bias);
}

TEST(HfConfig, RopeParametersOfTransformers5) {
  Json json = config_of("qwen3");
  json["head_dim"] = 16;
  json["layer_types"] = {"full_attention", "full_attention"};
  json["rope_parameters"] = {{"rope_theta", 5000000}, {"rope_type", "default"}};
  const ModelConfig config = parse(json);
  EXPECT_EQ(config.rope.theta, 5e6);
  EXPECT_EQ(config.rope.scaling, RopeConfig::Scaling::kNone);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_TRUE(config.qk_norm);
}

TEST(HfConfig, AbsentKeysTakeTheFamilysDefaults) {
  Json json = config_of("llama");
  json.erase("num_key_value_heads");
  json.erase("max_position_embeddings");
  json.erase("rms_norm_eps");
  const ModelConfig llama = parse(json);
  EXPECT_EQ(llama.num_kv_heads, 8);
  EXPECT_EQ(llama.max_positions, 2048);
  EXPECT_EQ(llama.rms_norm_eps, 1e-6);
  EXPECT_EQ(llama.rope.theta, 10000.0);
  json["model_type"] = "mistral";
  EXPECT_EQ(parse(json).num_kv_heads, 8);
  EXPECT_EQ(parse(json).max_positions, 131072);
  EXPECT_EQ(parse(config_of("qwen3")).head_dim, 128);
}

TEST(HfConfig, SlidingWindowThatIsNotInUse) {
  Json json = config_of("qwen2");
  json["sliding_window"] = 4;
  json["use_sliding_window"] = false;
  EXPECT_EQ(parse(json).max_positions, 1024);
  json = config_of("mistral");
  json["sliding_window"] = 1024;  // as long as the context: cuts nothing
  EXPECT_EQ(parse(json).max_positions, 1024);
}

struct Rejected {
  const char* name;
  const char* model_type;
  const char* changes;
  ErrorCode code;
  const char* message;
};

class RejectedConfig : public testing::TestWithParam<Rejected> {};

TEST_P(RejectedConfig, NamesTheKey) {
  Json json = config_of(GetParam().model_type);
  const Json changes = parse_json(GetParam().changes, "test");
  for (const auto& [key, value] : changes.items()) json[key] = value;
  if (json["sliding_window"] == "absent") json.erase("sliding_window");
  expect_error(GetParam().code, GetParam().message, [&] { parse(json); });
}

constexpr ErrorCode kNo = ErrorCode::kUnsupported;
constexpr ErrorCode kBad = ErrorCode::kCorruptData;

INSTANTIATE_TEST_SUITE_P(
    All, RejectedConfig,
    testing::Values(
        Rejected{"family", "llama", R"({"model_type":"gemma2"})", kNo,
                 "\"model_type\": \"gemma2\" is not supported"},
        Rejected{"moe", "llama", R"({"num_local_experts":8})", kNo, "\"num_local_experts\": 8"},
        Rejected{"moe_model_type", "llama", R"({"model_type":"qwen3_moe"})", kNo, "\"model_type\""},
        Rejected{"o_bias", "llama", R"({"attention_bias":true})", kNo, "\"attention_bias\": true"},
        Rejected{"qwen3_bias", "qwen3", R"({"attention_bias":true})", kNo, "\"attention_bias\": true"},
        Rejected{"mlp_bias", "llama", R"({"mlp_bias":true})", kNo, "\"mlp_bias\": true"},
        Rejected{"activation", "llama", R"({"hidden_act":"gelu"})", kNo, "\"hidden_act\": \"gelu\""},
        Rejected{"quantized", "llama", R"({"quantization_config":{"quant_method":"gptq"}})", kNo,
                 "\"quantization_config\""},
        Rejected{"tensor_parallel", "llama", R"({"pretraining_tp":2})", kNo, "\"pretraining_tp\": 2"},
        Rejected{"partial_rotary", "llama", R"({"partial_rotary_factor":0.5})", kNo,
                 "\"partial_rotary_factor\": 0.5"},
        Rejected{"partial_rotary_5", "llama",
                 R"({"rope_parameters":{"rope_theta":1e4,"partial_rotary_factor":0.5}})", kNo,
                 "\"rope_parameters.partial_rotary_factor\": 0.5"},
        Rejected{"yarn", "qwen2", R"({"rope_scaling":{"type":"yarn","factor":4.0}})", kNo,
                 "\"rope_scaling.type\": \"yarn\""},
        Rejected{"yarn_5", "qwen2",
                 R"({"rope_parameters":{"rope_type":"yarn","factor":4.0,"rope_theta":1e6}})", kNo,
                 "\"rope_parameters.rope_type\": \"yarn\""},
        Rejected{"dynamic", "llama", R"({"rope_scaling":{"type":"dynamic","factor":2.0}})", kNo,
                 "\"dynamic\""},
        Rejected{"longrope", "llama", R"({"rope_scaling":{"rope_type":"longrope"}})", kNo, "\"longrope\""},
        Rejected{"mrope", "qwen2", R"({"rope_scaling":{"type":"default","mrope_section":[1,2,3]}})", kNo,
                 "\"rope_scaling.mrope_section\""},
        Rejected{"rope_by_layer", "qwen2", R"({"rope_parameters":{"full_attention":{"rope_theta":1e4}}})",
                 kNo, "\"rope_parameters.full_attention\""},
        Rejected{"mistral_window", "mistral", R"({"sliding_window":512})", kNo, "\"sliding_window\": 512"},
        Rejected{"mistral_default_window", "mistral",
                 R"({"sliding_window":"absent","max_position_embeddings":32768})", kNo,
                 "\"sliding_window\": absent (4096 by default)"},
        Rejected{"qwen_window", "qwen2", R"({"use_sliding_window":true,"sliding_window":512})", kNo,
                 "\"use_sliding_window\": true"},
        Rejected{"layer_types", "qwen3", R"({"layer_types":["full_attention","sliding_attention"]})", kNo,
                 "\"layer_types\""},
        Rejected{"no_model_type", "llama", R"({"model_type":null})", kBad, "key \"model_type\" is missing"},
        Rejected{"no_hidden_size", "llama", R"({"hidden_size":null})", kBad,
                 "key \"hidden_size\" is missing"},
        Rejected{"text_for_number", "llama", R"({"hidden_size":"64"})", kBad,
                 "key \"hidden_size\" must be a whole number, not \"64\""},
        Rejected{"fraction", "llama", R"({"num_hidden_layers":1.5})", kBad,
                 "must be a whole number, not 1.5"},
        Rejected{"huge", "llama", R"({"vocab_size":1e300})", kBad, "must be a whole number"},
        Rejected{"negative", "llama", R"({"vocab_size":-1})", kBad, "vocabulary size -1 is out of range"},
        Rejected{"too_many_layers", "llama", R"({"num_hidden_layers":100000})", kBad,
                 "number of layers 100000 is out of range (1 to 4096)"},
        Rejected{"zero_heads", "llama", R"({"num_attention_heads":0})", kBad, "num_attention_heads 0"},
        Rejected{"kv_heads", "llama", R"({"num_key_value_heads":3})", kBad, "8 heads are no multiple of 3"},
        Rejected{"odd_head", "llama", R"({"head_dim":7})", kBad, "head size 7 is odd"},
        Rejected{"indivisible", "llama", R"({"hidden_size":65})", kBad, "hidden_size 65 is no multiple"},
        Rejected{"zero_theta", "llama", R"({"rope_theta":0})", kBad, "rope theta 0"},
        Rejected{"no_factor", "llama", R"({"rope_scaling":{"type":"linear"}})", kBad,
                 "key \"rope_scaling.factor\" is missing"},
        Rejected{
            "llama3_factors", "llama",
            R"({"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4}})",
            kBad, "llama3 rope scaling with low_freq_factor 4"},
        Rejected{"flag_is_text", "llama", R"({"tie_word_embeddings":"yes"})", kBad, "must be true or false"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(HfConfig, NotAnObject) {
  expect_error(ErrorCode::kCorruptData, "config.json: not a JSON object", [] { parse(Json::array()); });
}

// Frequencies come from transformers (tools/golden/weights_rope.py). One part in a million allows for its
// float32 power.
TEST(InverseFrequencies, EqualTransformers) {
  const Json cases = read_json_file("tests/golden/weights/rope.json");
  ASSERT_GE(cases.size(), 8u);
  for (const Json& golden : cases) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    const std::vector<float> frequencies = inverse_frequencies(parse(golden["config"]));
    const auto wanted = golden["inverse_frequencies"].get<std::vector<double>>();
    ASSERT_EQ(frequencies.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(frequencies[i], wanted[i], 1e-6 * wanted[i]) << "frequency " << i;
    }
  }
}

TEST(InverseFrequencies, FactorsDivide) {
  ModelConfig config;
  config.head_dim = 4;
  config.rope.scaling = RopeConfig::Scaling::kFactors;
  config.rope.frequency_factors = {1.0f, 8.0f};
  const std::vector<float> frequencies = inverse_frequencies(config);
  EXPECT_EQ(frequencies[0], 1.0f);
  EXPECT_EQ(frequencies[1], 0.01f / 8);
}

}  // namespace
}  // namespace calyrex::weights
