#include "calyrex/model/full.h"

#include <ATen/core/grad_mode.h>

#include "calyrex/base/error.h"
#include "calyrex/model/device.h"
#include "calyrex/model/parameter_builder.h"
#include "calyrex/model/weight_loading.h"

namespace calyrex::model {
namespace {

class BackboneWeights final : public Adapter {
 public:
  BackboneWeights(weights::AdapterConfig config, std::vector<AdapterParameter> parameters)
      : Adapter(std::move(config)) {
    parameters_ = std::move(parameters);
  }

  bool works_inside_layers() const override { return true; }
};

}  // namespace

TrainableBackbone load_trainable_backbone(const weights::AdapterConfig& config,
                                          const weights::ModelSource& model,
                                          const weights::AdapterFolder* checkpoint,
                                          at::ScalarType compute_dtype, at::Device device) {
  return translate_torch_errors("loading " + model.name(), [&] {
    const at::NoGradGuard no_grad;
    const ValueSource source = [&](const std::string& name, const std::vector<int64_t>&) {
      const weights::TensorView* view =
          checkpoint != nullptr ? checkpoint->weights->find(name) : model.find(name);
      CALYREX_CHECK(view != nullptr, "{}", name);
      return read_float(*view);
    };
    ParameterBuilder builder(config, source, compute_dtype, device, AdapterUse::kTrain);
    DecoderWeights weights = build_trained_weights(model.config(), builder);
    return TrainableBackbone{
        .decoder = std::make_shared<const Decoder>(model.config(), std::move(weights), compute_dtype, device),
        .weights = std::make_shared<BackboneWeights>(config, builder.take_parameters())};
  });
}

}  // namespace calyrex::model
