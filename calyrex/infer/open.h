// The way in: a local model as a language model.
#pragma once

#include <memory>

#include "calyrex/lm/language_model.h"
#include "calyrex/lm/local_model.h"

namespace calyrex::infer {

/// Opens the model (weights::open_model) and starts the engine. Errors: those of the model's files,
/// kUnsupported for a device that is not there, kOutOfMemory.
std::unique_ptr<lm::LanguageModel> open_language_model(const lm::LocalModelOptions& options);

}  // namespace calyrex::infer
