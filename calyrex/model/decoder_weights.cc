#include "calyrex/model/decoder_weights.h"

#include <string>

#include <fmt/format.h>

#include "calyrex/model/weight_loading.h"

namespace calyrex::model {
namespace {

/// Where the tensors of a decoder come from; names are whole.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual LinearWeight matrix(int64_t layer, const std::vector<std::string>& names) = 0;
  virtual at::Tensor vector(int64_t layer, const std::vector<std::string>& names) = 0;
};

class FrozenSource final : public WeightSource {
 public:
  explicit FrozenSource(const WeightLoader& loader) : loader_(loader) {}
  LinearWeight matrix(int64_t, const std::vector<std::string>& names) override {
    return {.frozen = FrozenMatrix(loader_.matrix(names)), .trained = {}};
  }
  at::Tensor vector(int64_t, const std::vector<std::string>& names) override { return loader_.vector(names); }

 private:
  const WeightLoader& loader_;
};

class TrainedSource final : public WeightSource {
 public:
  explicit TrainedSource(ParameterBuilder& builder) : builder_(builder) {}
  LinearWeight matrix(int64_t layer, const std::vector<std::string>& names) override {
    return {.frozen = {}, .trained = builder_.join(layer, names, part_of(names.front()))};
  }
  at::Tensor vector(int64_t layer, const std::vector<std::string>& names) override {
    return builder_.join(layer, names, part_of(names.front())).leaf;
  }

 private:
  static AdapterParameter::Part part_of(const std::string& name) {
    const bool attention =
        name.find("self_attn") != std::string::npos || name.find("input_layernorm") != std::string::npos;
    return attention ? AdapterParameter::Part::kAttention : AdapterParameter::Part::kMlp;
  }

  ParameterBuilder& builder_;
};

DecoderLayerWeights make_layer(WeightSource& source, const weights::ModelConfig& config, int64_t layer) {
  const auto full_names = [&](std::vector<std::string> names, const char* ending) {
    for (std::string& name : names) name = fmt::format("model.layers.{}.{}.{}", layer, name, ending);
    return names;
  };
  const auto matrix = [&](const std::vector<std::string>& names) {
    return source.matrix(layer, full_names(names, "weight"));
  };
  const auto vector = [&](const std::string& name) {
    return source.vector(layer, full_names({name}, "weight"));
  };
  const std::vector<std::string> qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
  DecoderLayerWeights weights;
  weights.input_norm = vector("input_layernorm");
  weights.qkv = matrix(qkv);
  weights.o = matrix({"self_attn.o_proj"});
  weights.post_norm = vector("post_attention_layernorm");
  weights.gate_up = matrix({"mlp.gate_proj", "mlp.up_proj"});
  weights.down = matrix({"mlp.down_proj"});
  weights.heads.num_heads = config.num_heads;
  weights.heads.num_kv_heads = config.num_kv_heads;
  weights.heads.head_dim = config.head_dim;
  weights.heads.norm_eps = config.rms_norm_eps;
  if (config.attention_bias) weights.heads.bias = source.vector(layer, full_names(qkv, "bias"));
  if (config.qk_norm) {
    weights.heads.q_norm = vector("self_attn.q_norm");
    weights.heads.k_norm = vector("self_attn.k_norm");
  }
  return weights;
}

}  // namespace

at::Tensor LinearWeight::multiply(const at::Tensor& x) const {
  return trained.defined() ? trained_linear(x, trained.leaf, trained.compute) : frozen_linear(x, frozen);
}

at::Tensor LinearWeight::multiply_backward(const at::Tensor& grad) const {
  return trained.defined() ? at::mm(grad, trained.compute) : frozen.multiply_backward(grad);
}

DecoderWeights load_frozen_weights(const weights::ModelSource& source, at::ScalarType compute_dtype,
                                   at::Device device) {
  const weights::ModelConfig& config = source.config();
  const WeightLoader loader(source, compute_dtype, device);
  FrozenSource frozen(loader);
  DecoderWeights weights;
  weights.embedding = loader.matrix({"model.embed_tokens.weight"});
  weights.head.frozen =
      FrozenMatrix(config.tied_head ? weights.embedding : loader.matrix({"lm_head.weight"}));
  weights.final_norm = loader.vector({"model.norm.weight"});
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    weights.layers.push_back(make_layer(frozen, config, layer));
  }
  return weights;
}

DecoderWeights build_trained_weights(const weights::ModelConfig& config, ParameterBuilder& builder) {
  constexpr int64_t kNoLayer = -1;
  TrainedSource trained(builder);
  DecoderWeights weights;
  const LinearWeight embedding = trained.matrix(kNoLayer, {"model.embed_tokens.weight"});
  weights.embedding = embedding.trained.leaf;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    weights.layers.push_back(make_layer(trained, config, layer));
  }
  weights.final_norm = trained.vector(kNoLayer, {"model.norm.weight"});
  weights.head = config.tied_head ? embedding : trained.matrix(kNoLayer, {"lm_head.weight"});
  return weights;
}

}  // namespace calyrex::model
