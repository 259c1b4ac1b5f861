#include "calyrex/train/session.h"

#include <algorithm>
#include <ctime>
#include <thread>

#include <ATen/Parallel.h>

#include "calyrex/base/error.h"
#include "calyrex/base/log.h"
#include "calyrex/model/device.h"
#include "calyrex/model/full.h"
#include "calyrex/train/signals.h"

namespace calyrex::train {
namespace {

/// The configuration in the form of the settings.
Json comparable(const weights::AdapterConfig& config) {
  const std::string kind(to_string(config.kind));
  Json json = {{"kind", kind}, {kind, weights::adapter_section_to_json(config)}};
  if (config.kind != weights::AdapterKind::kLora) json["placement"] = config.placement;
  return json;
}

TrainedKind trained_kind(weights::AdapterKind kind) {
  switch (kind) {
    case weights::AdapterKind::kLora:
      return TrainedKind::kLora;
    case weights::AdapterKind::kParallelMlp:
      return TrainedKind::kParallelMlp;
    case weights::AdapterKind::kFull:
      return TrainedKind::kFull;
    case weights::AdapterKind::kCal:
      break;
  }
  return TrainedKind::kCal;
}

/// Keys that the user wrote and that say something else than the adapter to start from.
void check_agrees(const LoadedConfig& loaded, const weights::ModelSource& model,
                  const weights::AdapterConfig& from) {
  AdapterSettings settings = loaded.config.adapter;
  settings.init = WeightInit::kNormal;
  if (!loaded.given.contains("adapter.kind")) settings.kind = trained_kind(from.kind);
  const Json wanted = comparable(make_adapter_config(settings, model));
  const Json found = comparable(from);
  for (const std::string& key : loaded.given) {
    std::string pointer = key;
    if (!key.starts_with("adapter.") || key.starts_with("adapter.span.")) continue;
    pointer = "/" + pointer.substr(std::string("adapter.").size());
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    const Json::json_pointer place(pointer);
    if (!wanted.contains(place) || !found.contains(place) || wanted[place] == found[place]) continue;
    fail(ErrorCode::kInvalidArgument,
         "{}: {} contradicts adapter.init_from, whose adapter has {}; leave the key out", key,
         to_json_line(wanted[place]), to_json_line(found[place]));
  }
}

lm::Precision precision_of(ComputeDtype dtype) {
  switch (dtype) {
    case ComputeDtype::kAuto:
      return lm::Precision::kAuto;
    case ComputeDtype::kFloat32:
      return lm::Precision::kFloat32;
    case ComputeDtype::kBFloat16:
      return lm::Precision::kBFloat16;
  }
  return lm::Precision::kAuto;
}

void wait_for_rows(const EncodedRows& rows) {
  constexpr int kPollMs = 100;  // between looks at the stop signals
  while (!rows.wait_for(kPollMs)) StopSignals::check();
}

/// All that encoded rows depend on.
std::string rows_key(const ChatFiles& files, const text::ChatEncoder& encoder, const TrainConfig& config,
                     const weights::AdapterConfig& adapter, const EncodedRows::Options& options) {
  Json key = {{"model", config.model},
              {"template", encoder.chat_template()},
              {"chat", write_fields(config.chat)},
              {"date", adapter.chat_date.value_or("")},
              {"span", write_fields(adapter.span)},
              {"max_tokens", options.max_tokens},
              {"labels", std::string(to_string(options.labels))}};
  for (const DataFile& file : files.files) key["files"].push_back({file.path, file.sha256});
  return to_json_line(key);
}

/// Starts to encode; the summary is logged when all rows are done.
std::shared_ptr<const EncodedRows> encode_rows(ChatFiles files,
                                               std::shared_ptr<const text::ChatEncoder> encoder,
                                               const EncodedRows::Options& options, std::string what) {
  return std::make_shared<EncodedRows>(std::move(files.rows), std::move(encoder), options,
                                       [what, limit = options.max_tokens](const DataSummary& summary) {
                                         report_summary(summary, what, limit);
                                       });
}

}  // namespace

StartingPoint find_starting_point(const LoadedConfig& loaded, const weights::ModelSource& model,
                                  const std::optional<Checkpoint>& checkpoint) {
  const AdapterSettings& settings = loaded.config.adapter;
  StartingPoint point;
  if (checkpoint) {
    point.folder = weights::open_adapter(checkpoint->path, model, weights::BaseMismatch::kReject);
    point.config = point.folder->config;
  } else if (settings.init_from) {
    with_context("adapter.init_from", [&] {
      point.folder = weights::open_adapter(*settings.init_from, model, weights::BaseMismatch::kReject);
    });
    point.config = point.folder->config;
    if (point.config.kind == weights::AdapterKind::kFull) {
      fail(
          ErrorCode::kInvalidArgument,
          "adapter.init_from: {} is a checkpoint of kind full and no adapter; give its finished run as model",
          *settings.init_from);
    }
    check_agrees(loaded, model, point.config);
    point.config.base = weights::base_identity(model);
    point.config.lora.dropout = settings.lora.dropout;
    point.config.base_model_name_or_path = model.name();
    if (loaded.given.contains("adapter.span.part")) point.config.span.part = settings.span.part;
    if (loaded.given.contains("adapter.span.default_text"))
      point.config.span.default_text = settings.span.default_text;
    if (loaded.given.contains("adapter.span.role")) point.config.span.role = settings.span.role;
  } else {
    point.config = make_adapter_config(settings, model);
  }
  return point;
}

std::shared_ptr<const text::ChatEncoder> make_encoder(const LoadedConfig& loaded,
                                                      const weights::ModelSource& model,
                                                      const std::optional<Checkpoint>& checkpoint,
                                                      const std::string& date, StartingPoint& point) {
  const ChatSettings& chat = loaded.config.chat;
  text::ChatOptions options{.chat_template = {},
                            .template_name = {},
                            .kwargs = chat.kwargs,
                            .date = date,
                            .span = point.config.span};
  if (chat.chat_template && !checkpoint) {
    options.chat_template = text::resolve_chat_template(*chat.chat_template);
  } else if (point.folder && point.folder->chat_template) {
    options.chat_template = point.folder->chat_template;
    options.template_name = point.folder->path.string();
  }
  const weights::TokenizerSource& source = model.tokenizer();
  if (!checkpoint && options.chat_template && source.chat_template &&
      *options.chat_template != *source.chat_template) {
    log_warning("the chat template in use is not {}'s own; it is stored with the adapter", model.name());
  }
  auto encoder = std::make_shared<text::ChatEncoder>(source, text::Tokenizer::create(source), options);
  const bool dated = encoder->chat_template().find("strftime_now") != std::string::npos;
  point.config.chat_date = dated ? std::optional(date) : std::nullopt;
  return encoder;
}

int64_t resolve_max_tokens(const LoadedConfig& loaded, const weights::ModelConfig& model) {
  const int64_t wanted = loaded.config.data.max_tokens;
  if (wanted <= model.max_positions) return wanted;
  if (loaded.given.contains("data.max_tokens")) {
    fail(ErrorCode::kInvalidArgument, "data.max_tokens: {} is more than the model's context of {} tokens",
         wanted, model.max_positions);
  }
  return model.max_positions;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("{:04}-{:02}-{:02}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
}

Session::Session(const LoadedConfig& loaded, std::shared_ptr<const weights::ModelSource> model,
                 ChatFiles train_files, ChatFiles eval_files,
                 std::shared_ptr<const text::ChatEncoder> encoder, const StartingPoint& point,
                 const SharedWork& shared) {
  const TrainConfig& config = loaded.config;
  const int64_t max_tokens = resolve_max_tokens(loaded, model->config());
  const auto encode = [&](ChatFiles files, const EncodedRows::Options& options, std::string what) {
    if (shared.rows == nullptr) return encode_rows(std::move(files), encoder, options, std::move(what));
    const std::string key = rows_key(files, *encoder, config, point.config, options);
    return shared.rows->get(key,
                            [&] { return encode_rows(std::move(files), encoder, options, std::move(what)); });
  };
  prepare_data(loaded, std::move(train_files), std::move(eval_files), max_tokens, encode);
  StopSignals::check();
  const at::Device device = model::resolve_device("auto");
  const at::ScalarType dtype = model::resolve_dtype(precision_of(config.train.dtype), device);
  std::shared_ptr<model::Adapter> adapter;
  if (point.config.kind == weights::AdapterKind::kFull) {
    model::TrainableBackbone backbone = model::load_trainable_backbone(
        point.config, *model, point.folder ? &*point.folder : nullptr, dtype, device);
    decoder_ = std::move(backbone.decoder);
    adapter = std::move(backbone.weights);
  } else {
    decoder_ = model::Decoder::load(*model, dtype, device);
  }
  if (adapter == nullptr && point.folder) {
    adapter = model::load_adapter(*point.folder, model->config(), dtype, device, model::AdapterUse::kTrain);
  } else if (adapter == nullptr) {
    const model::InitOptions init{.method = config.adapter.init == WeightInit::kCopyBackbone
                                                ? model::InitMethod::kCopyBackbone
                                                : model::InitMethod::kNormal,
                                  .std = config.adapter.init_std,
                                  .seed = static_cast<uint64_t>(config.train.seed)};
    adapter = model::create_adapter(point.config, *model, init, dtype, device, model::AdapterUse::kTrain);
  }
  trainer_ = std::make_unique<Trainer>(decoder_, std::move(adapter), config.train);
  if (config.train.prefix_cache_gib > 0.0) open_prefix_cache(config, *model, shared.prefix_states);
}

void Session::open_prefix_cache(const TrainConfig& config, const weights::ModelSource& model,
                                const std::optional<PrefixStates>& shared) {
  const int64_t layer = prefix_cache_layer(trainer_->adapter());
  if (layer < 0) {
    const weights::AdapterKind kind = trainer_->adapter().config().kind;
    log_warning("train.prefix_cache_gib: {}, so nothing is cached",
                trainer_->adapter().works_inside_layers()
                    ? fmt::format("kind {} changes the network from the first layer on", to_string(kind))
                    : "there is no layer below the first block");
    return;
  }
  CALYREX_CHECK(!shared || shared->layer <= layer, "states after layer {}, a block after layer {}",
                shared->layer, layer);
  prefix_cache_ = std::make_unique<PrefixCache>(PrefixCache::Options{
      .folder = shared ? shared->folder : std::filesystem::path(config.output) / "prefix_cache",
      .layer = shared ? shared->layer : layer,
      .width = decoder_->config().hidden_size,
      .identity = fmt::format("{} {} {}", backbone_digest(model), dtype(), at::get_num_threads()),
      .budget_bytes =
          shared ? shared->budget_bytes : static_cast<int64_t>(config.train.prefix_cache_gib * (1 << 30))});
  trainer_->use_prefix_cache(prefix_cache_.get());
}

void Session::prepare_data(const LoadedConfig& loaded, ChatFiles train_files, ChatFiles eval_files,
                           int64_t max_tokens, const Encode& encode_files) {
  const TrainSettings& train = loaded.config.train;
  StepPlanner::Options plan = {.sources = {},
                               .order = train.shuffle ? RowOrder::kShuffled : RowOrder::kAsFiles,
                               .seed = static_cast<uint64_t>(train.seed),
                               .batch_tokens = train.batch_tokens,
                               .batch_examples = train.batch_examples,
                               .epochs = train.epochs};
  int64_t first_row = 0;
  for (size_t i = 0; i < train_files.files.size(); ++i) {
    const int64_t rows = train_files.files[i].num_rows;
    plan.sources.push_back(
        {.first_row = first_row, .num_rows = rows, .weight = loaded.config.data.train[i].weight});
    first_row += rows;
  }
  EncodedRows::Options encode = {
      .max_tokens = max_tokens, .labels = loaded.config.data.labels, .num_threads = 1};
  if (!train.max_steps)
    encode.num_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  train_rows_ = encode_files(std::move(train_files), encode, "training");
  const auto length = [rows = train_rows_.get()](int64_t row) { return rows->at(row).num_tokens(); };
  if (train.max_steps) {
    plan.epochs.reset();
    total_steps_ = *train.max_steps;
  } else {
    wait_for_rows(*train_rows_);
    total_steps_ = count_steps(plan, length);
  }
  planner_ = std::make_unique<StepPlanner>(plan, length);
  if (!eval_files.rows.empty()) eval_rows_ = encode_files(std::move(eval_files), encode, "evaluation");
}

RowPointers Session::rows(const std::vector<int64_t>& indices) const {
  RowPointers pointers;
  for (const int64_t index : indices) pointers.push_back(&train_rows_->at(index));
  return pointers;
}

RowPointers Session::eval_rows() const {
  RowPointers pointers;
  if (!eval_rows_) return pointers;
  wait_for_rows(*eval_rows_);
  for (int64_t row = 0; row < eval_rows_->size(); ++row) {
    if (eval_rows_->at(row).num_tokens() > 0) pointers.push_back(&eval_rows_->at(row));
  }
  return pointers;
}

std::string Session::dtype() const { return std::string(model::dtype_text(decoder_->dtype())); }

}  // namespace calyrex::train
