#include "calyrex/cli/eval_models.h"

#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "calyrex/base/json.h"
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/torch_part.h"
#include "calyrex/lm/openai_client.h"

namespace calyrex::cli {
void add_endpoint_flags(CLI::App& command, const std::string& prefix, const std::string& help,
                        EndpointFlags& flags) {
  command.add_option("--" + prefix, flags.url, help)->check(not_empty());
  command.add_option(fmt::format("--{}-model", prefix), flags.model,
                     "Name of its model; default: the first that it lists");
  command
      .add_option(fmt::format("--{}-key", prefix), flags.key_variable,
                  "Environment variable that holds its API key")
      ->capture_default_str();
  command
      .add_option(fmt::format("--{}-concurrency", prefix), flags.concurrency, "Requests under way at a time")
      ->check(whole_number<int64_t>())
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
}

std::unique_ptr<lm::LanguageModel> open_endpoint(const EndpointFlags& flags) {
  lm::OpenAiOptions options;
  options.url = flags.url;
  options.model = flags.model;
  options.api_key_variable = flags.key_variable;
  options.concurrency = flags.concurrency;
  return std::make_unique<lm::OpenAiClient>(std::move(options));
}

Json endpoint_identity(const EndpointFlags& flags, const lm::LanguageModel& model) {
  Json json;
  json["endpoint"] = flags.url;
  json["model"] = model.info().name;
  return json;
}

std::unique_ptr<eval::LocalSubjects> local_subjects(const ModelFlags& flags,
                                                    const std::vector<std::string>& adapters,
                                                    const std::string& date) {
  eval::LocalSubjects::Options options{
      .model = local_model_options(flags),
      .dtype = flags.dtype,
      .adapters = {},
      .open = [](const lm::LocalModelOptions& model) { return torch_part().open_language_model(model); }};
  if (!date.empty()) options.model.chat_date = date;
  for (const std::string& adapter : adapters) {
    const AdapterArgument argument = parse_adapter_argument(adapter);
    options.adapters.push_back({.path = argument.path, .scale = argument.scale});
  }
  return std::make_unique<eval::LocalSubjects>(std::move(options));
}

}  // namespace calyrex::cli
