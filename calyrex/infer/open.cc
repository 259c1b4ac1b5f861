#include "calyrex/infer/open.h"

#include "calyrex/infer/core/engine.h"
#include "calyrex/infer/model_executor.h"

namespace calyrex::infer {

std::unique_ptr<lm::LanguageModel> open_language_model(const lm::LocalModelOptions& options) {
  const std::shared_ptr<const weights::ModelSource> source = weights::open_model(options.model);
  return std::make_unique<Engine>(source, options,
                                  [&] { return std::make_unique<ModelExecutor>(source, options); });
}

}  // namespace calyrex::infer
