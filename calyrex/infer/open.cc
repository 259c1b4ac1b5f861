#include "calyrex/infer/open.h"

#include "calyrex/base/error.h"
#include "calyrex/infer/core/engine.h"
#include "calyrex/infer/model_executor.h"
#include "calyrex/infer/quant_executor.h"
#include "calyrex/model/device.h"

namespace calyrex::infer {
namespace {

/// Whether steps run on packed weights. An adapter in another precision than 8 bits needs the other executor.
bool runs_quantised(const weights::ModelSource& source, const lm::LocalModelOptions& options) {
  const bool possible = options.dtype == lm::Precision::kAuto &&
                        model::resolve_device(options.device).is_cpu() && QuantNetwork::supports(source);
  if (options.adapter_dtype == lm::AdapterPrecision::kInt8 && !possible) {
    fail(ErrorCode::kUnsupported,
         "--adapter-dtype int8 goes with a quantised model on the CPU and --dtype auto; {} is run in another "
         "way",
         source.name());
  }
  return possible && options.adapter_dtype != lm::AdapterPrecision::kModel;
}

}  // namespace

std::unique_ptr<lm::LanguageModel> open_language_model(const lm::LocalModelOptions& options) {
  const std::shared_ptr<const weights::ModelSource> source = weights::open_model(options.model);
  return std::make_unique<Engine>(source, options, [&]() -> std::unique_ptr<Executor> {
    if (runs_quantised(*source, options)) return std::make_unique<QuantExecutor>(source, options);
    return std::make_unique<ModelExecutor>(source, options);
  });
}

}  // namespace calyrex::infer
