#include "calyrex/cli/eval_models.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "calyrex/base/error.h"
#include "calyrex/base/json.h"
#include "calyrex/base/sha256.h"
#include "calyrex/cli/arguments.h"
#include "calyrex/cli/torch_part.h"
#include "calyrex/lm/openai_client.h"
#include "calyrex/weights/adapter_folder.h"

namespace calyrex::cli {
namespace {

namespace fs = std::filesystem;

/// Templates that write the date must write the same one in every run.
constexpr const char* kFixedDate = "2026-01-01";
/// Keys and values of a full batch of long answers, also in float32.
constexpr double kCacheGib = 2.0;

/// Digest of a sample of every tensor: tells merged and re-trained weights apart without reading them whole.
std::string weights_digest(const weights::ModelSource& model) {
  constexpr size_t kSampledBytes = 4096;
  Sha256 digest;
  for (const weights::TensorView& tensor : model.tensors()) {
    digest.update(fmt::format("{} {}\n", tensor.name, tensor.data.size()));
    digest.update(tensor.data.first(std::min(kSampledBytes, tensor.data.size())));
  }
  return digest.hex_digest();
}

std::string folder_name(const fs::path& path) {
  const fs::path normal = fs::weakly_canonical(path);
  return normal.filename().string();
}

bool is_anchored(const weights::AdapterConfig& config) {
  const weights::MlpScope scope =
      config.kind == weights::AdapterKind::kCal ? config.cal.mlp_scope : config.parallel_mlp.mlp_scope;
  return scope == weights::MlpScope::kAnchored && config.span.default_text == weights::DefaultText::kIgnore;
}

/// The template that is rendered with.
std::string template_text(const lm::LocalModelOptions& options, const weights::ModelSource& model,
                          const weights::AdapterFolder* adapter) {
  if (options.chat_template) return *options.chat_template;
  if (adapter != nullptr && adapter->chat_template) return *adapter->chat_template;
  return model.tokenizer().chat_template.value_or("");
}

void identify_template(const std::string& text, Json& identity) {
  identity["template_sha256"] = sha256_hex(text);
  identity["writes_date"] = text.find("strftime_now") != std::string::npos;
}

}  // namespace

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

LocalSubjects::LocalSubjects(const ModelFlags& flags, const std::vector<std::string>& adapters,
                             const std::string& date)
    : options_(local_model_options(flags)) {
  const auto model = weights::open_model(options_.model);
  options_.cache_gib = kCacheGib;
  if (!date.empty()) options_.chat_date = date;
  eval::Subject base;
  base.description["model"] = flags.model;
  base.description["adapter"] = nullptr;
  base.description["subject"] = base.name;
  base.description["dtype"] = flags.dtype;
  base.identity["model"] = weights_digest(*model);
  base.identity["dtype"] = flags.dtype;
  base.identity["chat_kwargs"] = options_.chat_kwargs;
  identify_template(template_text(options_, *model, nullptr), base.identity);
  subjects_.push_back(std::move(base));
  for (const std::string& adapter : adapters) add_adapter(parse_adapter_argument(adapter), *model);
  if (!options_.chat_date) options_.chat_date = kFixedDate;
  for (eval::Subject& subject : subjects_) {
    if (subject.identity["writes_date"].get<bool>()) subject.identity["chat_date"] = *options_.chat_date;
  }
}

void LocalSubjects::add_adapter(const AdapterArgument& argument, const weights::ModelSource& model) {
  const auto mismatch =
      options_.allow_base_mismatch ? weights::BaseMismatch::kAllow : weights::BaseMismatch::kReject;
  const weights::AdapterFolder folder = weights::open_adapter(argument.path, model, mismatch);
  if (!options_.chat_date) options_.chat_date = folder.config.chat_date;
  const std::string plain = argument.scale == 1.0
                                ? folder_name(argument.path)
                                : fmt::format("{}@{}", folder_name(argument.path), argument.scale);
  eval::Subject subject = subjects_.front();
  subject.name = plain;
  const auto taken = [&] {
    return std::ranges::any_of(subjects_,
                               [&](const eval::Subject& other) { return other.name == subject.name; });
  };
  for (int number = 2; taken(); ++number) subject.name = fmt::format("{}-{}", plain, number);
  subject.adapter = {.name = subject.name, .scale = argument.scale};
  subject.anchored = is_anchored(folder.config);
  subject.identity["adapter_sha256"] = folder.content_sha256;
  subject.identity["scale"] = argument.scale;
  identify_template(template_text(options_, model, &folder), subject.identity);
  subject.description["adapter"] = argument.path.string();
  subject.description["subject"] = subject.name;
  subject.description["scale"] = argument.scale;
  subjects_.push_back(std::move(subject));
  adapters_.push_back(argument);
}

lm::LanguageModel& LocalSubjects::model() {
  if (model_ == nullptr) {
    model_ = torch_part().open_language_model(options_);
    for (size_t i = 0; i < adapters_.size(); ++i) {
      model_->load_adapter(subjects_[i + 1].name, adapters_[i].path);
    }
  }
  return *model_;
}

}  // namespace calyrex::cli
