#include "calyrex/infer/core/engine.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "calyrex/base/error.h"
#include "calyrex/base/log.h"
#include "calyrex/lm/validation.h"

namespace calyrex::infer {
namespace {

/// Requests and scores that may be unfinished at a time; beyond that submit() and score() refuse.
constexpr int64_t kMaxUnfinished = 1 << 16;
/// Tokens of one scoring batch when nothing else runs, and beside running answers, which it delays.
constexpr int64_t kScoreTokens = 4096;
constexpr int64_t kScoreTokensBeside = 512;
/// Jobs looked at for a batch of similar lengths.
constexpr size_t kScoreWindow = 256;

}  // namespace

Engine::LoadedAdapter::LoadedAdapter(const Engine& engine, const weights::AdapterFolder& folder,
                                     lm::AdapterInfo info, std::shared_ptr<const ServedAdapter> served)
    : info(std::move(info)),
      encoder(engine.model_, engine.tokenizer_, engine.options_, &folder),
      served(std::move(served)) {}

Engine::Engine(std::shared_ptr<const weights::ModelSource> model, lm::LocalModelOptions options,
               OpenExecutor open)
    : model_(std::move(model)),
      options_(std::move(options)),
      tokenizer_(text::Tokenizer::create(model_->tokenizer())),
      base_encoder_(model_, tokenizer_, options_, /*adapter=*/nullptr),
      seeds_(options_.seed, "requests") {
  std::promise<void> opened;
  std::future<void> ready = opened.get_future();
  thread_ =
      std::thread([this, &open, promise = std::move(opened)]() mutable { serve(std::move(promise), open); });
  try {
    ready.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::shared_ptr<const Engine::LoadedAdapter> Engine::find_adapter(const lm::AdapterChoice& choice) const {
  lm::validate_scale(choice);
  if (choice.name.empty()) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(choice.name);
  if (found == adapters_.end()) fail(ErrorCode::kNotFound, "there is no adapter '{}'", choice.name);
  return found->second;
}

const PromptEncoder& Engine::encoder(const LoadedAdapter* adapter) const {
  return adapter == nullptr ? base_encoder_ : adapter->encoder;
}

lm::RequestId Engine::submit(lm::GenerateRequest request, lm::EventHandler handler) {
  lm::validate_request(request, info_.vocab_size);
  const std::shared_ptr<const LoadedAdapter> adapter = find_adapter(request.adapter);
  Request::Setup setup;
  setup.prompt = encoder(adapter.get()).encode(request.prompt);
  lm::validate_token_ids(setup.prompt.token_ids, setup.prompt.system_spans, info_.vocab_size);
  const auto length = static_cast<int64_t>(setup.prompt.token_ids.size());
  lm::validate_length(length + 1, info_.max_positions);
  if (length + 1 > max_sequence_tokens_) {
    fail(ErrorCode::kInvalidArgument,
         "the prompt has {} tokens, but a cache of {} GiB holds only {}; raise cache_gib", length,
         options_.cache_gib, max_sequence_tokens_);
  }
  setup.max_tokens = std::min({length + request.max_new_tokens, info_.max_positions, max_sequence_tokens_});
  setup.handler = std::move(handler);
  setup.tokenizer = tokenizer_;
  if (!request.ignore_eos) setup.stop_ids = model_->tokenizer().stop_ids;
  if (adapter != nullptr && request.adapter.scale != 0.0) setup.adapter = adapter->served;
  setup.request = std::move(request);

  const std::lock_guard lock(mutex_);
  if (unfinished_ >= kMaxUnfinished) {
    fail(ErrorCode::kResourceExhausted, "{} requests are unfinished; try again later", unfinished_);
  }
  setup.seed = setup.request.sampling.seed ? *setup.request.sampling.seed : seeds_.next();
  const lm::RequestId id = next_id_++;
  ++unfinished_;
  ++counters_.requests_waiting;
  inbox_.requests.push_back(std::make_unique<Request>(id, std::move(setup)));
  wake_.notify_all();
  return id;
}

void Engine::cancel(lm::RequestId id) {
  const std::lock_guard lock(mutex_);
  inbox_.cancelled.push_back(id);
  wake_.notify_all();
}

std::future<lm::ScoreResult> Engine::score(lm::ScoreRequest request) {
  const std::shared_ptr<const LoadedAdapter> adapter = find_adapter(request.adapter);
  request = tokenize(request);
  ScoreJob job;
  job.item = {.token_ids = std::move(request.prompt.token_ids),
              .system_spans = std::move(request.prompt.system_spans),
              .adapter = nullptr,
              .scale = request.adapter.scale,
              .score_from = request.score_from};
  if (adapter != nullptr && request.adapter.scale != 0.0) job.item.adapter = adapter->served;
  std::future<lm::ScoreResult> result = job.promise.get_future();
  const std::lock_guard lock(mutex_);
  if (unfinished_ >= kMaxUnfinished) {
    fail(ErrorCode::kResourceExhausted, "{} requests are unfinished; try again later", unfinished_);
  }
  ++unfinished_;
  inbox_.scores.push_back(std::move(job));
  wake_.notify_all();
  return result;
}

lm::Prompt Engine::tokenize(const lm::Prompt& prompt, const lm::AdapterChoice& adapter) const {
  lm::Prompt result = encoder(find_adapter(adapter).get()).encode(prompt);
  lm::validate_token_ids(result.token_ids, result.system_spans, info_.vocab_size);
  return result;
}

lm::ScoreRequest Engine::tokenize(const lm::ScoreRequest& request) const {
  lm::ScoreRequest result = encoder(find_adapter(request.adapter).get()).encode(request);
  const auto length = static_cast<int64_t>(result.prompt.token_ids.size());
  lm::validate_token_ids(result.prompt.token_ids, result.prompt.system_spans, info_.vocab_size);
  lm::validate_score_from(result.score_from, length);
  lm::validate_length(length, info_.max_positions);
  return result;
}

lm::AdapterInfo Engine::load_adapter(const std::string& name, const std::filesystem::path& path) {
  if (name.empty()) fail(ErrorCode::kInvalidArgument, "an adapter needs a name");
  const std::lock_guard loading(loading_mutex_);
  const auto mismatch =
      options_.allow_base_mismatch ? weights::BaseMismatch::kAllow : weights::BaseMismatch::kReject;
  const weights::AdapterFolder folder = weights::open_adapter(path, *model_, mismatch);

  std::shared_ptr<const ServedAdapter> served;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [other, adapter] : adapters_) {
      if (adapter->info.content_sha256 == folder.content_sha256) served = adapter->served;
    }
  }
  if (served == nullptr) {
    std::packaged_task<std::shared_ptr<const ServedAdapter>()> task(
        [&] { return executor_->load_adapter(folder); });
    std::future<std::shared_ptr<const ServedAdapter>> loaded = task.get_future();
    {
      const std::lock_guard lock(mutex_);
      inbox_.calls.push_back([&task] { task(); });
    }
    wake_.notify_all();
    served = loaded.get();
  }
  const lm::AdapterInfo info{.name = name,
                             .path = path,
                             .kind = std::string(to_string(folder.config.kind)),
                             .content_sha256 = folder.content_sha256,
                             .num_parameters = served->num_parameters()};
  auto adapter = std::make_shared<const LoadedAdapter>(*this, folder, info, std::move(served));
  const std::lock_guard lock(mutex_);
  adapters_[name] = std::move(adapter);
  return info;
}

void Engine::unload_adapter(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (adapters_.erase(name) == 0) fail(ErrorCode::kNotFound, "there is no adapter '{}'", name);
}

std::vector<lm::AdapterInfo> Engine::adapters() const {
  const std::lock_guard lock(mutex_);
  std::vector<lm::AdapterInfo> infos;
  for (const auto& [name, adapter] : adapters_) infos.push_back(adapter->info);
  return infos;
}

lm::ModelInfo Engine::info() const { return info_; }

lm::Counters Engine::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void Engine::open_executor(const OpenExecutor& open) {
  executor_ = open();
  pool_ = std::make_unique<PagePool>(executor_->num_pages());
  scheduler_ = std::make_unique<Scheduler>(SchedulerOptions{.max_running = options_.max_batch_sequences,
                                                            .prefill_tokens = options_.prefill_chunk_tokens,
                                                            .page_size = executor_->page_size(),
                                                            .reuse_prefixes = options_.reuse_prefixes},
                                           *pool_, *executor_);
  max_sequence_tokens_ = scheduler_->max_sequence_tokens();
  const weights::ModelConfig& config = model_->config();
  info_ = {.name = model_->name(),
           .max_positions = config.max_positions,
           .vocab_size = config.vocab_size,
           .num_parameters = executor_->num_parameters(),
           .dtype = executor_->dtype(),
           .device = executor_->device()};
}

void Engine::serve(std::promise<void> opened, const OpenExecutor& open) {
  try {
    open_executor(open);
  } catch (...) {
    executor_.reset();
    opened.set_exception(std::current_exception());
    return;
  }
  opened.set_value();
  while (std::optional<Inbox> inbox = wait_for_work()) {
    take_in(std::move(*inbox));
    run_step();
    run_scores();
    publish_counters();
  }
  end_all();
  executor_.reset();
}

std::optional<Engine::Inbox> Engine::wait_for_work() {
  std::unique_lock lock(mutex_);
  if (scheduler_->idle() && score_jobs_.empty()) {
    wake_.wait(lock, [this] { return stopping_ || !inbox_.empty(); });
  }
  if (stopping_) return std::nullopt;
  return std::exchange(inbox_, {});
}

void Engine::take_in(Inbox inbox) {
  for (const auto& call : inbox.calls) call();
  for (auto& request : inbox.requests) {
    scheduler_->add(&request->sequence());
    requests_.emplace(request->id(), std::move(request));
  }
  for (ScoreJob& job : inbox.scores) score_jobs_.push_back(std::move(job));
  for (const lm::RequestId id : inbox.cancelled) {
    if (requests_.contains(id)) end(id, {.reason = lm::FinishReason::kCancelled, .error = nullptr});
  }
}

void Engine::run_step() {
  const Scheduler::Step step = scheduler_->next();
  if (step.items.empty()) return;
  std::vector<Request*> sampled;
  try {
    const std::vector<LogitsRow> rows = executor_->step(step.items);
    for (const StepItem& item : step.items) {
      if (item.completes()) sampled.push_back(requests_.at(item.sequence->id).get());
    }
    CALYREX_CHECK(rows.size() == sampled.size(), "{} rows for {} sequences", rows.size(), sampled.size());
    scheduler_->advance(step);
    executor_->parallel_for(static_cast<int64_t>(rows.size()), [&](int64_t i) {
      sampled[static_cast<size_t>(i)]->sample(rows[static_cast<size_t>(i)]);
    });
  } catch (...) {
    // Nobody can tell whose fault it was; the cache of all of them is in doubt.
    for (const StepItem& item : step.items) end(item.sequence->id, {.error = std::current_exception()});
    return;
  }
  for (Request* request : sampled) {
    if (const auto ended = request->accept()) end(request->id(), *ended);
  }
}

void Engine::end(lm::RequestId id, const Request::End& end) {
  const auto found = requests_.find(id);
  const std::unique_ptr<Request> request = std::move(found->second);
  requests_.erase(found);
  // While the sequence still says how much of it is computed.
  executor_->forget(request->sequence());
  scheduler_->remove(&request->sequence());
  {
    const std::lock_guard lock(mutex_);
    --unfinished_;
    ++counters_.requests_finished;
    counters_.prompt_tokens += request->usage().prompt_tokens;
    counters_.cached_tokens += request->usage().cached_tokens;
    counters_.completion_tokens += request->usage().completion_tokens;
  }
  publish_counters();
  request->finish(end);
}

void Engine::end_all() {
  Inbox inbox;
  {
    const std::lock_guard lock(mutex_);
    inbox = std::exchange(inbox_, {});
  }
  take_in(std::move(inbox));
  while (!requests_.empty()) {
    end(requests_.begin()->first, {.reason = lm::FinishReason::kCancelled, .error = nullptr});
  }
  for (ScoreJob& job : score_jobs_) {
    job.promise.set_exception(std::make_exception_ptr(Error(ErrorCode::kCancelled, "the engine was closed")));
  }
  score_jobs_.clear();
}

/// The oldest job, and others of its adapter and scale, nearest in length first, within the token budget.
std::vector<Engine::ScoreJob> Engine::next_score_batch() {
  const ScoreItem& oldest = score_jobs_.front().item;
  std::vector<size_t> window;
  for (size_t i = 0; i < std::min(score_jobs_.size(), kScoreWindow); ++i) {
    const ScoreItem& item = score_jobs_[i].item;
    if (item.adapter == oldest.adapter && (item.adapter == nullptr || item.scale == oldest.scale))
      window.push_back(i);
  }
  const auto length = [this](size_t i) { return static_cast<int64_t>(score_jobs_[i].item.token_ids.size()); };
  const int64_t oldest_length = length(0);
  std::stable_sort(window.begin() + 1, window.end(), [&](size_t a, size_t b) {
    return std::abs(length(a) - oldest_length) < std::abs(length(b) - oldest_length);
  });
  int64_t budget = scheduler_->idle() ? kScoreTokens : kScoreTokensBeside;
  std::vector<size_t> chosen;
  for (const size_t i : window) {
    const bool shares =
        !chosen.empty() && share_computation(score_jobs_[chosen.back()].item, score_jobs_[i].item);
    const int64_t cost = shares ? 0 : length(i);
    if (!chosen.empty() && cost > budget) break;
    budget -= cost;
    chosen.push_back(i);
  }
  // Equal lengths side by side share one call of the attention.
  std::stable_sort(chosen.begin(), chosen.end(), [&](size_t a, size_t b) { return length(a) < length(b); });
  std::vector<ScoreJob> batch;
  for (const size_t i : chosen) batch.push_back(std::move(score_jobs_[i]));
  std::sort(chosen.begin(), chosen.end(), std::greater<>());
  for (const size_t i : chosen) score_jobs_.erase(score_jobs_.begin() + static_cast<ptrdiff_t>(i));
  return batch;
}

void Engine::run_scores() {
  if (score_jobs_.empty()) return;
  std::vector<ScoreJob> batch = next_score_batch();
  {
    const std::lock_guard lock(mutex_);
    unfinished_ -= static_cast<int64_t>(batch.size());
    counters_.requests_finished += static_cast<int64_t>(batch.size());
    for (const ScoreJob& job : batch) {
      counters_.prompt_tokens += static_cast<int64_t>(job.item.token_ids.size());
    }
  }
  try {
    std::vector<const ScoreItem*> items;
    for (const ScoreJob& job : batch) items.push_back(&job.item);
    std::vector<TokenScores> scores = executor_->score(items);
    CALYREX_CHECK(scores.size() == batch.size(), "{} scores for {} sequences", scores.size(), batch.size());
    for (size_t i = 0; i < batch.size(); ++i) {
      ScoreItem& item = batch[i].item;
      batch[i].promise.set_value({.token_ids = std::move(item.token_ids),
                                  .system_spans = std::move(item.system_spans),
                                  .score_from = item.score_from,
                                  .logprobs = std::move(scores[i].logprobs),
                                  .greedy = std::move(scores[i].greedy)});
    }
  } catch (...) {
    for (ScoreJob& job : batch) job.promise.set_exception(std::current_exception());
  }
}

void Engine::publish_counters() {
  const std::lock_guard lock(mutex_);
  counters_.requests_running = scheduler_->num_running();
  counters_.requests_waiting = scheduler_->num_waiting() + static_cast<int64_t>(inbox_.requests.size());
  counters_.cache_pages_total = pool_->num_pages();
  counters_.cache_pages_used = pool_->num_pages() - pool_->num_free() - pool_->num_idle();
}

}  // namespace calyrex::infer
