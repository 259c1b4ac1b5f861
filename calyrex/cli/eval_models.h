// Whose answers `eval run` grades: a local model, alone and with adapters, or an endpoint.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calyrex/cli/model_flags.h"
#include "calyrex/eval/run/subjects.h"

namespace CLI {
class App;
}  // namespace CLI

namespace calyrex::cli {

/// An OpenAI-compatible endpoint, as flags name it.
struct EndpointFlags {
  std::string url;  // empty: none
  std::string model;
  std::string key_variable = "OPENAI_API_KEY";
  int64_t concurrency = 8;
};
/// Adds --PREFIX, --PREFIX-model, --PREFIX-key and --PREFIX-concurrency.
void add_endpoint_flags(CLI::App& command, const std::string& prefix, const std::string& help,
                        EndpointFlags& flags);

/// Opens it; a model that is not named is asked for.
std::unique_ptr<lm::LanguageModel> open_endpoint(const EndpointFlags& flags);
/// {"endpoint", "model"}: what its answers depend on, as far as one can know.
Json endpoint_identity(const EndpointFlags& flags, const lm::LanguageModel& model);

/// The flags' model, alone and with the adapters (DIR[@SCALE]). `date` is what templates see; empty: the
/// first adapter's, else a fixed one.
std::unique_ptr<eval::LocalSubjects> local_subjects(const ModelFlags& flags,
                                                    const std::vector<std::string>& adapters,
                                                    const std::string& date);

}  // namespace calyrex::cli
