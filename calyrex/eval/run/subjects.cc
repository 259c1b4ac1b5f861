#include "calyrex/eval/run/subjects.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "calyrex/base/error.h"
#include "calyrex/base/json.h"
#include "calyrex/base/sha256.h"
#include "calyrex/weights/adapter_folder.h"

namespace calyrex::eval {
namespace {

namespace fs = std::filesystem;

/// Answers made together: a sample's end leaves few rows in a smaller batch, and larger ones gain no more.
constexpr int64_t kSequences = 128;
/// Keys and values of a full batch of long answers.
constexpr double kCacheGib = 1.5;

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
  return scope == weights::MlpScope::kAnchored && config.span.role == weights::SpanRole::kSystem &&
         config.span.default_text == weights::DefaultText::kIgnore;
}

/// The template that is rendered with.
std::string template_text(const lm::LocalModelOptions& options, const weights::ModelSource& model,
                          const weights::AdapterFolder* adapter) {
  if (options.chat_template) return *options.chat_template;
  if (adapter != nullptr && adapter->chat_template) return *adapter->chat_template;
  return model.tokenizer().chat_template.value_or("");
}

void identify_template(const std::string& text, Subject& subject) {
  subject.identity["template_sha256"] = sha256_hex(text);
  subject.identity["writes_date"] = text.find("strftime_now") != std::string::npos;
  subject.renders_tools = text.find("tools") != std::string::npos;
}

}  // namespace

LocalSubjects::LocalSubjects(Options options) : options_(std::move(options)) {
  const auto model = weights::open_model(options_.model.model);
  options_.model.max_batch_sequences = kSequences;
  options_.model.cache_gib = kCacheGib;
  Subject base;
  base.description["model"] = options_.model.model;
  base.description["adapter"] = nullptr;
  base.description["subject"] = base.name;
  base.description["dtype"] = options_.dtype;
  base.identity["model"] = weights_digest(*model);
  base.identity["dtype"] = options_.dtype;
  base.identity["chat_kwargs"] = options_.model.chat_kwargs;
  identify_template(template_text(options_.model, *model, nullptr), base);
  subjects_.push_back(std::move(base));
  for (const AdapterSource& source : options_.adapters) add_adapter(source, *model);
  if (!options_.model.chat_date) options_.model.chat_date = kFixedDate;
  for (Subject& subject : subjects_) {
    if (subject.identity["writes_date"].get<bool>())
      subject.identity["chat_date"] = *options_.model.chat_date;
  }
}

void LocalSubjects::add_adapter(const AdapterSource& source, const weights::ModelSource& model) {
  const auto mismatch =
      options_.model.allow_base_mismatch ? weights::BaseMismatch::kAllow : weights::BaseMismatch::kReject;
  const weights::AdapterFolder folder = weights::open_adapter(source.path, model, mismatch);
  if (!options_.model.chat_date) options_.model.chat_date = folder.config.chat_date;
  const std::string plain = source.scale == 1.0
                                ? folder_name(source.path)
                                : fmt::format("{}@{}", folder_name(source.path), source.scale);
  Subject subject = subjects_.front();
  subject.name = plain;
  const auto taken = [&] {
    return std::ranges::any_of(subjects_, [&](const Subject& other) { return other.name == subject.name; });
  };
  for (int number = 2; taken(); ++number) subject.name = fmt::format("{}-{}", plain, number);
  subject.adapter = {.name = subject.name, .scale = source.scale};
  subject.anchored = is_anchored(folder.config);
  subject.identity["adapter_sha256"] = folder.content_sha256;
  subject.identity["scale"] = source.scale;
  identify_template(template_text(options_.model, model, &folder), subject);
  subject.description["adapter"] = source.path.string();
  subject.description["subject"] = subject.name;
  subject.description["scale"] = source.scale;
  subjects_.push_back(std::move(subject));
}

lm::LanguageModel& LocalSubjects::model() {
  if (model_ == nullptr) {
    model_ = options_.open(options_.model);
    for (size_t i = 0; i < options_.adapters.size(); ++i) {
      model_->load_adapter(subjects_[i + 1].name, options_.adapters[i].path);
    }
  }
  return *model_;
}

}  // namespace calyrex::eval
