#include "calyrex/train/run.h"

#include <chrono>
#include <optional>

#include <ATen/Parallel.h>

#include "calyrex/base/error.h"
#include "calyrex/base/log.h"
#include "calyrex/base/sha256.h"
#include "calyrex/model/cpu_allocator.h"
#include "calyrex/model/device.h"
#include "calyrex/train/metrics.h"
#include "calyrex/train/model_card.h"
#include "calyrex/train/schedule.h"
#include "calyrex/train/session.h"
#include "calyrex/train/signals.h"

namespace calyrex::train {
namespace {
namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

weights::DType file_dtype(SaveDtype dtype) {
  switch (dtype) {
    case SaveDtype::kBFloat16:
      return weights::DType::kBF16;
    case SaveDtype::kFloat16:
      return weights::DType::kF16;
    case SaveDtype::kFloat32:
      return weights::DType::kF32;
  }
  return weights::DType::kF32;
}

std::string config_digest(Json config) {
  config.erase("output");
  return sha256_hex(to_json_line(config));
}

std::vector<std::string> train_paths(const DataSettings& data) {
  std::vector<std::string> paths;
  for (const TrainFile& file : data.train) paths.push_back(file.path);
  return paths;
}

std::vector<std::string> eval_paths(const DataSettings& data) {
  std::vector<std::string> paths;
  for (const EvalFile& file : data.eval) paths.push_back(file.path);
  return paths;
}

/// One run from its start, or from its last checkpoint, to its end.
class Run {
 public:
  Run(LoadedConfig loaded, Existing existing, SharedWork shared)
      : loaded_(std::move(loaded)),
        shared_(std::move(shared)),
        folder_(loaded_.config.output),
        store_(loaded_.config.output, loaded_.config.train.keep_checkpoints),
        restart_(existing == Existing::kRestart) {
    refuse_own_model();
    folder_.clean_up();
    store_.clean_up();
  }

  void execute() {
    if (!prepare()) return;
    MetricsLog log(folder_.metrics_path(), state_.step);
    TrainingProgress progress(session_->total_steps());
    const Schedule schedule = Schedule::make(train().schedule, train().warmup_ratio, session_->total_steps());
    while (state_.step < session_->total_steps()) {
      std::optional<StepMetrics> metrics = take_step(schedule);
      if (!metrics) interrupt();
      log.write(*metrics);
      progress.show(*metrics);
      if (train().checkpoint_every > 0 && state_.step % train().checkpoint_every == 0) save_checkpoint();
    }
    finish();
  }

 private:
  const TrainSettings& train() const { return loaded_.config.train; }
  bool trains_all() const { return loaded_.config.adapter.kind == TrainedKind::kFull; }

  /// The run would replace, and --restart remove, what it reads.
  void refuse_own_model() const {
    std::error_code ignored;
    if (!fs::equivalent(loaded_.config.model, folder_.path(), ignored)) return;
    fail(ErrorCode::kInvalidArgument, "output: {} is the folder of the model itself; choose another output",
         folder_.path().string());
  }

  /// False when the run is finished already.
  bool prepare() {
    record_.config = write_fields(loaded_.config);
    std::optional<RunRecord> existing;
    if (!restart_) existing = folder_.read_record();
    if (!existing && !restart_ && !store_.empty()) {
      fail(ErrorCode::kInvalidArgument,
           "{} holds checkpoints without the training.json of their run; choose another output or give "
           "--restart",
           folder_.path().string());
    }
    // Before the data and the model are read: a slip in the configuration shows at once.
    if (existing) check_same_run(*existing, with_files_of(*existing), folder_.path());
    ChatFiles train_files = read_chat_files(train_paths(loaded_.config.data));
    ChatFiles eval_files = read_chat_files(eval_paths(loaded_.config.data));
    record_.train_files = train_files.files;
    record_.eval_files = eval_files.files;
    if (existing) {
      check_same_run(*existing, record_, folder_.path());
      // As it was written: keys that came after it are not in the digest of its checkpoints.
      record_.config = existing->config;
      record_.config["output"] = loaded_.config.output;
    }
    if (existing && existing->status == RunRecord::Status::kFinished &&
        fs::exists(folder_.path() / (trains_all() ? "config.json" : "adapter_config.json"))) {
      log_info("{} is finished; --restart trains it anew", folder_.path().string());
      return false;
    }
    StopSignals::check();
    open_session(existing, std::move(train_files), std::move(eval_files));
    return true;
  }

  RunRecord with_files_of(const RunRecord& existing) const {
    RunRecord record = existing;
    record.config = record_.config;
    return record;
  }

  void open_session(const std::optional<RunRecord>& existing, ChatFiles train_files, ChatFiles eval_files) {
    std::optional<Checkpoint> checkpoint;
    if (!restart_) checkpoint = store_.newest();
    model_ = weights::open_model(loaded_.config.model);
    StartingPoint point = find_starting_point(loaded_, *model_, checkpoint);
    std::string date = loaded_.config.chat.date.value_or(today());
    if (existing && existing->chat_date) date = *existing->chat_date;
    encoder_ = make_encoder(loaded_, *model_, checkpoint, date, point);
    adapter_config_ = point.config;
    record_.chat_date = date;
    // The earlier run goes only now that data, model and template of the new one were read.
    if (restart_) folder_.restart();
    if (!existing) folder_.write_record(record_);
    session_ = std::make_unique<Session>(loaded_, model_, std::move(train_files), std::move(eval_files),
                                         encoder_, point, shared_);
    log_sizes();
    if (checkpoint) {
      restore(*checkpoint);
    } else {
      state_ = {.seed = static_cast<uint64_t>(train().seed),
                .config_sha256 = config_digest(record_.config),
                .dtype = session_->dtype(),
                .threads = at::get_num_threads()};
    }
  }

  void log_sizes() const {
    const int64_t trained = session_->trainer().adapter().num_parameters();
    const int64_t backbone = session_->decoder().num_parameters();
    log_info("trained parameters: {} of {} in all, {:.2f} % of the backbone's {}; {} steps; {}, {} threads",
             trained, trains_all() ? backbone : backbone + trained,
             100.0 * static_cast<double>(trained) / static_cast<double>(backbone), backbone,
             session_->total_steps(), session_->dtype(), at::get_num_threads());
  }

  void restore(const Checkpoint& checkpoint) {
    state_ = checkpoint.state;
    if (state_.config_sha256 != config_digest(record_.config)) {
      fail(ErrorCode::kCorruptData, "{} belongs to a run of another configuration; --restart begins anew",
           checkpoint.path.string());
    }
    if (state_.dtype != session_->dtype() || state_.threads != at::get_num_threads()) {
      log_warning(
          "the run began with {} and {} threads and goes on with {} and {}: results will not be the same "
          "bits",
          state_.dtype, state_.threads, session_->dtype(), at::get_num_threads());
    }
    const auto moments = weights::SafetensorsFile::open(checkpoint.path / "optimizer.safetensors");
    session_->trainer().optimizer().restore(moments, state_.optimizer_steps);
    session_->planner().set_cursor(state_.cursor);
    saved_step_ = state_.step;
    log_info("continuing after step {} of {}", state_.step, session_->total_steps());
  }

  /// Nothing when a signal asked to stop before the step was whole.
  std::optional<StepMetrics> take_step(const Schedule& schedule) {
    const Clock::time_point start = Clock::now();
    const RowPointers rows = session_->rows(session_->planner().next());
    CALYREX_CHECK(!rows.empty(), "step {} of {} has no rows", state_.step + 1, session_->total_steps());
    const auto result = session_->trainer().accumulate(rows, state_.step + 1, StopSignals::requested);
    if (!result) return std::nullopt;
    const double lr_factor = schedule.factor(state_.step);
    session_->trainer().update(*result, lr_factor);
    ++state_.step;
    state_.cursor = session_->planner().cursor();
    state_.tokens += result->tokens;
    state_.label_tokens += result->label_tokens;
    StepMetrics metrics = {.step = state_.step,
                           .loss = result->loss,
                           .tokens = result->tokens,
                           .label_tokens = result->label_tokens,
                           .grad_norm = result->norms.total,
                           .learning_rate = train().learning_rate * lr_factor,
                           .seconds = seconds_since(start),
                           .block_grad_norms = result->norms.blocks,
                           .eval_loss = {}};
    state_.seconds += metrics.seconds;
    evaluate_when_due(metrics);
    return metrics;
  }

  void evaluate_when_due(StepMetrics& metrics) {
    if (train().eval_every == 0) return;
    if (state_.step % train().eval_every != 0 && state_.step != session_->total_steps()) return;
    const RowPointers rows = session_->eval_rows();
    metrics.eval_loss = session_->trainer().evaluate(rows, StopSignals::requested);
    if (metrics.eval_loss) log_info("step {}: evaluation loss {:.4f}", state_.step, *metrics.eval_loss);
  }

  void save_checkpoint() {
    if (saved_step_ == state_.step) return;
    state_.optimizer_steps = session_->trainer().optimizer().step_counts();
    store_.save(state_, adapter_config_, session_->trainer().adapter(), session_->trainer().optimizer(),
                encoder_->chat_template());
    saved_step_ = state_.step;
  }

  [[noreturn]] void interrupt() {
    if (state_.step > 0) save_checkpoint();
    fail(ErrorCode::kCancelled, "interrupted after step {} of {}; the same command continues", state_.step,
         session_->total_steps());
  }

  void finish() {
    save_checkpoint();
    record_.status = RunRecord::Status::kFinished;
    record_.results = {{"steps", state_.step},
                       {"tokens", state_.tokens},
                       {"label_tokens", state_.label_tokens},
                       {"seconds", state_.seconds},
                       {"dtype", state_.dtype},
                       {"threads", state_.threads},
                       {"trained_parameters", session_->trainer().adapter().num_parameters()},
                       {"backbone_parameters", session_->decoder().num_parameters()}};
    if (const PrefixCache* cache = session_->prefix_cache()) {
      log_info("prefix cache: {} of {} row lookups were hits, {:.2f} GiB", cache->counts().hits,
               cache->counts().hits + cache->counts().misses,
               static_cast<double>(cache->counts().bytes) / (1 << 30));
      record_.results["prefix_cache"] = {{"layer", cache->layer()},
                                         {"hits", cache->counts().hits},
                                         {"misses", cache->counts().misses},
                                         {"bytes", cache->counts().bytes}};
    }
    constexpr int64_t kCurvePoints = 1000;
    const Json curve = read_loss_curve(folder_.metrics_path(), kCurvePoints);
    if (!curve.at("loss").empty()) record_.results["final_loss"] = curve.at("loss").back().at("loss");
    record_.results["curve"] = curve;
    const weights::DType dtype = file_dtype(train().save_dtype);
    if (trains_all()) {
      folder_.write_model(*model_, session_->trainer().adapter(), dtype, tokenizer_files(),
                          encoder_->chat_template(), record_);
    } else {
      folder_.write_adapter(adapter_config_, session_->trainer().adapter(), dtype, encoder_->chat_template(),
                            record_);
    }
    folder_.remove_prefix_cache();
    log_info("the {} is in {} ({} steps, {} tokens, {})", trains_all() ? "model" : "adapter",
             folder_.path().string(), state_.step, state_.tokens, format_duration(state_.seconds));
  }

  /// A GGUF file's tokenizer in Hugging Face's form; folders have their own.
  std::optional<weights::TokenizerFiles> tokenizer_files() const {
    if (model_->folder()) return std::nullopt;
    log_info("{} is a GGUF file: config.json and the tokenizer are written anew from it", model_->name());
    const auto tokenizer = text::Tokenizer::create(model_->tokenizer());
    return weights::TokenizerFiles{.tokenizer_json = tokenizer->to_json(),
                                   .bos_token = tokenizer->bos_token(),
                                   .eos_token = tokenizer->eos_token(),
                                   .adds_bos = tokenizer->bos_to_add().has_value()};
  }

  LoadedConfig loaded_;
  SharedWork shared_;
  RunFolder folder_;
  CheckpointStore store_;
  bool restart_;
  RunRecord record_;
  RunState state_;
  weights::AdapterConfig adapter_config_;  // as it is written beside the weights
  int64_t saved_step_ = 0;
  std::shared_ptr<const weights::ModelSource> model_;
  std::shared_ptr<const text::ChatEncoder> encoder_;
  std::unique_ptr<Session> session_;
};

}  // namespace

void run_training(const RunRequest& request) {
  LoadedConfig loaded = load_train_config(request.config_path, request.overrides);
  const StopSignals signals;
  Run(std::move(loaded), request.existing, request.shared).execute();
  model::release_unused_memory();  // for what the process does next
}

void write_new_adapter(const NewAdapterRequest& request) {
  std::error_code ignored;
  if (fs::exists(request.output) && !fs::is_empty(request.output, ignored)) {
    fail(ErrorCode::kInvalidArgument, "{} exists and is not empty; choose another --output",
         request.output.string());
  }
  std::vector<std::string> assignments = {"kind=" + request.kind, "placement=" + request.placement};
  assignments.insert(assignments.end(), request.settings.begin(), request.settings.end());
  const AdapterSettings settings = parse_adapter_settings(assignments);
  if (settings.kind == TrainedKind::kFull) {
    fail(ErrorCode::kInvalidArgument, "kind full trains the model itself; there is no adapter to begin with");
  }
  const auto model = weights::open_model(request.model);
  const weights::AdapterConfig config = make_adapter_config(settings, *model);
  const model::InitOptions init{.method = settings.init == WeightInit::kCopyBackbone
                                              ? model::InitMethod::kCopyBackbone
                                              : model::InitMethod::kNormal,
                                .std = settings.init_std,
                                .seed = request.seed};
  const auto adapter = model::create_adapter(config, *model, init, at::kFloat, at::Device(at::kCPU),
                                             model::AdapterUse::kServe);
  const model::AdapterTensors tensors = model::export_tensors(*adapter, weights::DType::kF32);
  std::vector<std::pair<std::string, std::string>> extra = {
      {"README.md", adapter_card(config, RunRecord{}, adapter->num_parameters())}};
  if (model->tokenizer().chat_template)
    extra.emplace_back("chat_template.jinja", *model->tokenizer().chat_template);
  weights::write_adapter(request.output, config, tensors.tensors, extra);
  log_info("a new {} adapter of {} parameters is in {}; until it is trained it changes nothing",
           to_string(config.kind), adapter->num_parameters(), request.output.string());
}

}  // namespace calyrex::train
