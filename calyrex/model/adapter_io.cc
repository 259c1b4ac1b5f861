// Building adapters: from a folder, from nothing, and back into a file.
#include <cmath>
#include <map>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/random.h"
#include "calyrex/model/adapter.h"
#include "calyrex/model/cal.h"
#include "calyrex/model/device.h"
#include "calyrex/model/lora.h"
#include "calyrex/model/parallel_mlp.h"
#include "calyrex/model/parameter_builder.h"
#include "calyrex/model/weight_loading.h"

namespace calyrex::model {
namespace {

using weights::AdapterConfig;
using weights::AdapterKind;

/// Assembles the blocks of CAL and ParallelMLP.
class BlockBuilder {
 public:
  explicit BlockBuilder(ParameterBuilder& parameters) : parameters_(parameters) {}

  GatedMlp mlp(int64_t layer, double norm_eps) {
    using enum AdapterParameter::Part;
    return {.norm = join(layer, {"mlp_norm.weight"}, kMlp),
            .gate_up = join(layer, {"mlp.gate_proj.weight", "mlp.up_proj.weight"}, kMlp),
            .down = join(layer, {"mlp.down_proj.weight"}, kMlp),
            .norm_eps = norm_eps};
  }

  CalBlock cal(int64_t layer, double norm_eps) {
    using enum AdapterParameter::Part;
    CalBlock block;
    block.attn_norm = join(layer, {"attn_norm.weight"}, kAttention);
    block.q = join(layer, {"attn.q_proj.weight"}, kAttention);
    block.kv = join(layer, {"attn.k_proj.weight", "attn.v_proj.weight"}, kAttention);
    block.o = join(layer, {"attn.o_proj.weight"}, kAttention);
    block.q_bias = join(layer, {"attn.q_proj.bias"}, kAttention);
    block.kv_bias = join(layer, {"attn.k_proj.bias", "attn.v_proj.bias"}, kAttention);
    block.q_norm = join(layer, {"attn.q_norm.weight"}, kAttention);
    block.k_norm = join(layer, {"attn.k_norm.weight"}, kAttention);
    block.mlp = mlp(layer, norm_eps);
    return block;
  }

 private:
  TrainedTensor join(int64_t layer, std::vector<std::string> names, AdapterParameter::Part part) {
    for (std::string& name : names) name = fmt::format("blocks.{}.{}", layer, name);
    return parameters_.join(layer, names, part);
  }

  ParameterBuilder& parameters_;
};

std::shared_ptr<Adapter> build_adapter(const AdapterConfig& config, const weights::ModelConfig& backbone,
                                       const ValueSource& source, at::ScalarType compute_dtype,
                                       at::Device device, AdapterUse use) {
  const at::NoGradGuard no_grad;
  if (config.kind == AdapterKind::kFull) {
    fail(ErrorCode::kUnsupported,
         "kind full is a trained backbone and no adapter; its finished run is a model folder for --model");
  }
  ParameterBuilder parameters(config, source, compute_dtype, device, use);
  if (config.kind == AdapterKind::kLora) return std::make_shared<LoraAdapter>(config, parameters);
  BlockBuilder builder(parameters);
  if (config.kind == AdapterKind::kParallelMlp) {
    std::map<int64_t, GatedMlp> blocks;
    for (const int64_t layer : config.placement)
      blocks[layer] = builder.mlp(layer, config.parallel_mlp.rms_norm_eps);
    return std::make_shared<ParallelMlpAdapter>(config, std::move(blocks), parameters.take_parameters());
  }
  std::map<int64_t, CalBlock> blocks;
  for (const int64_t layer : config.placement) blocks[layer] = builder.cal(layer, config.cal.rms_norm_eps);
  at::Tensor frequencies;
  if (config.cal.position == weights::CalPosition::kRope) {
    if (config.cal.head_dim != backbone.head_dim) {
      fail(ErrorCode::kInvalidArgument,
           "cal.position: rope uses the backbone's rotation and needs its head_dim of {}, not {}",
           backbone.head_dim, config.cal.head_dim);
    }
    frequencies = at::tensor(weights::inverse_frequencies(backbone), at::kFloat).to(device);
  }
  return std::make_shared<CalAdapter>(config, std::move(blocks), parameters.take_parameters(), frequencies);
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  for (const std::string_view ending : endings) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

/// The backbone tensor that copy_backbone takes for an adapter tensor ("blocks.7.attn.q_proj.weight").
std::string backbone_name(const std::string& name, int64_t layer) {
  std::string tail = name.substr(fmt::format("blocks.{}.", layer).size());
  if (tail == "attn_norm.weight") tail = "input_layernorm.weight";
  if (tail == "mlp_norm.weight") tail = "post_attention_layernorm.weight";
  if (tail.starts_with("attn.")) tail = "self_" + tail;
  return fmt::format("model.layers.{}.{}", layer, tail);
}

/// PEFT's default: Kaiming uniform with a = sqrt(5), which is uniform over +-1/sqrt(in).
at::Tensor draw_low_rank(const std::string& name, const std::vector<int64_t>& shape,
                         const InitOptions& init) {
  at::Tensor values = at::empty(shape, at::kFloat);
  auto* data = values.mutable_data_ptr<float>();
  const double bound = 1.0 / std::sqrt(static_cast<double>(shape.back()));
  RandomStream random(init.seed, "init/" + name);
  for (int64_t n = 0; n < values.numel(); ++n) {
    data[n] = static_cast<float>((2.0 * random.uniform() - 1.0) * bound);
  }
  return values;
}

at::Tensor draw_normal(const std::string& name, const std::vector<int64_t>& shape, const InitOptions& init) {
  at::Tensor values = at::empty(shape, at::kFloat);
  auto* data = values.mutable_data_ptr<float>();
  RandomStream random(init.seed, "init/" + name);
  for (int64_t n = 0; n < values.numel(); ++n) data[n] = static_cast<float>(random.normal() * init.std);
  return values;
}

at::Tensor initial_value(const std::string& name, const std::vector<int64_t>& shape, const InitOptions& init,
                         const weights::ModelSource& model) {
  if (name.ends_with("lora_A.weight")) return draw_low_rank(name, shape, init);
  if (ends_with_any(name, {"o_proj.weight", "down_proj.weight", "lora_B.weight"}))
    return at::zeros(shape, at::kFloat);
  if (init.method == InitMethod::kCopyBackbone) {
    const int64_t layer = std::stoll(name.substr(name.find('.') + 1));
    const weights::TensorView* source = model.find(backbone_name(name, layer));
    if (source == nullptr || source->shape != shape) {
      fail(ErrorCode::kInvalidArgument,
           "adapter.init: copy_backbone: {} [{}] has no equal in the backbone; leave the block's shapes as "
           "the backbone's",
           name, fmt::join(shape, ", "));
    }
    return read_float(*source);
  }
  if (ends_with_any(name, {"norm.weight"})) return at::ones(shape, at::kFloat);
  if (name.ends_with(".bias")) return at::zeros(shape, at::kFloat);
  return draw_normal(name, shape, init);
}

}  // namespace

std::shared_ptr<Adapter> load_adapter(const weights::AdapterFolder& folder,
                                      const weights::ModelConfig& backbone, at::ScalarType compute_dtype,
                                      at::Device device, AdapterUse use) {
  return translate_torch_errors(fmt::format("loading adapter {}", folder.path.string()), [&] {
    const ValueSource source = [&](const std::string& name, const std::vector<int64_t>&) {
      const weights::TensorView* view = folder.weights->find(name);
      CALYREX_CHECK(view != nullptr, "{}", name);
      return read_float(*view);
    };
    return build_adapter(folder.config, backbone, source, compute_dtype, device, use);
  });
}

std::shared_ptr<Adapter> create_adapter(const AdapterConfig& config, const weights::ModelSource& model,
                                        const InitOptions& init, at::ScalarType compute_dtype,
                                        at::Device device, AdapterUse use) {
  return translate_torch_errors("creating an adapter", [&] {
    const ValueSource source = [&](const std::string& name, const std::vector<int64_t>& shape) {
      return initial_value(name, shape, init, model);
    };
    return build_adapter(config, model.config(), source, compute_dtype, device, use);
  });
}

AdapterTensors export_tensors(const Adapter& adapter, weights::DType dtype) {
  return translate_torch_errors("exporting an adapter", [&] {
    at::ScalarType type = at::kFloat;
    if (dtype == weights::DType::kBF16) type = at::kBFloat16;
    if (dtype == weights::DType::kF16) type = at::kHalf;
    AdapterTensors result;
    for (const AdapterParameter& parameter : adapter.parameters()) {
      const at::Tensor values = parameter.value().to(at::kCPU, type).contiguous();
      result.storage.push_back(values);
      result.tensors.push_back(
          {.name = parameter.name,
           .dtype = dtype,
           .shape = values.sizes().vec(),
           .data = {static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()}});
    }
    return result;
  });
}

}  // namespace calyrex::model
