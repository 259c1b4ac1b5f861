#include "calyrex/lm/openai_client.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <random>
#include <utility>

#include "calyrex/base/log.h"
#include "calyrex/lm/stop_matcher.h"
#include "calyrex/lm/validation.h"

namespace calyrex::lm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int64_t kMaxConcurrency = 256;

/// The key, or empty. A key that could break out of its header line is refused without showing it.
std::string read_key(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  if (value == nullptr) return "";
  const std::string key = value;
  if (key.size() > 4096 || std::any_of(key.begin(), key.end(), [](char c) { return c <= ' ' || c > '~'; })) {
    fail(ErrorCode::kInvalidArgument,
         "the environment variable {} does not hold a key: it has white space, other than ASCII characters, "
         "or is too long",
         variable);
  }
  return key;
}

[[noreturn]] void fail_unsupported(std::string_view what) {
  fail(ErrorCode::kUnsupported, "an OpenAI-compatible endpoint does not offer {}; use a local model", what);
}

}  // namespace

struct OpenAiClient::Job {
  RequestId id = 0;
  GenerateRequest request;
  EventHandler handler;
  StopMatcher stop{{}};
  bool delivered = false;  // some text went to the handler: no second attempt
  std::atomic<bool> cancelled = false;
};

OpenAiClient::OpenAiClient(OpenAiOptions options)
    : options_(std::move(options)), random_(std::random_device{}(), "openai retries") {
  if (options_.concurrency < 1 || options_.concurrency > kMaxConcurrency) {
    fail(ErrorCode::kInvalidArgument, "requests at a time must be 1 to {}, got {}", kMaxConcurrency,
         options_.concurrency);
  }
  if (options_.retry.max_attempts < 1) {
    fail(ErrorCode::kInvalidArgument, "attempts must be at least 1, got {}", options_.retry.max_attempts);
  }
  endpoint_ = {.base = openai_base_url(options_.url),
               .key = read_key(options_.api_key_variable),
               .key_variable = options_.api_key_variable,
               .connect_timeout = options_.connect_timeout,
               .answer_timeout = options_.answer_timeout,
               .max_answer_bytes = options_.max_answer_bytes};
  if (options_.model.empty()) find_model();
  for (int64_t i = 0; i < options_.concurrency; ++i) threads_.emplace_back([this] { work(); });
}

OpenAiClient::~OpenAiClient() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void OpenAiClient::find_model() {
  for (int attempt = 1;; ++attempt) {
    const std::optional<OpenAiFailure> failed = fetch_first_model(endpoint_, options_.model);
    if (!failed) return;
    if (!failed->retryable || attempt >= options_.retry.max_attempts) throw failed->error;
    std::this_thread::sleep_for(wait_after(*failed, attempt));
  }
}

RequestId OpenAiClient::submit(GenerateRequest request, EventHandler handler) {
  validate_request(request, std::numeric_limits<TokenId>::max());
  if (!request.adapter.name.empty()) fail_unsupported("adapters");
  openai_request_body(request, {});  // refuses what cannot be sent
  auto job = std::make_shared<Job>();
  job->stop = StopMatcher(request.stop);
  job->request = std::move(request);
  job->handler = std::move(handler);
  const std::lock_guard lock(mutex_);
  if (static_cast<int64_t>(waiting_.size()) >= options_.max_waiting) {
    fail(ErrorCode::kResourceExhausted, "{} requests are waiting already", waiting_.size());
  }
  job->id = next_id_++;
  waiting_.push_back(job);
  wake_.notify_all();
  return job->id;
}

void OpenAiClient::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  if (const auto found = running_.find(id); found != running_.end()) found->second->cancelled = true;
  for (const auto& job : waiting_) {
    if (job->id == id) job->cancelled = true;
  }
  wake_.notify_all();
}

bool OpenAiClient::given_up(const Job& job) const { return job.cancelled || stopping_; }

void OpenAiClient::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::shared_ptr<Job> job = waiting_.front();
    waiting_.pop_front();
    running_[job->id] = job;
    lock.unlock();
    const FinishEvent event = serve(*job);
    lock.lock();
    running_.erase(job->id);
    ++counters_.requests_finished;
    counters_.prompt_tokens += event.usage.prompt_tokens;
    counters_.completion_tokens += event.usage.completion_tokens;
    lock.unlock();
    if (job->handler.on_finish) job->handler.on_finish(event);
    lock.lock();
  }
}

FinishEvent OpenAiClient::serve(Job& job) {
  FinishEvent event{.reason = FinishReason::kCancelled, .text = {}, .usage = {}, .error = nullptr};
  if (given_up(job)) return event;
  OpenAiAnswer answer;
  try {
    if (const std::optional<OpenAiFailure> failed = attempt_all(job, answer)) {
      event.reason = FinishReason::kStop;
      event.error = std::make_exception_ptr(failed->error);
      if (failed->endpoint_down) fail_waiting(failed->error);
      return event;
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) event.error = std::current_exception();
    return event;
  } catch (...) {
    event.error = std::current_exception();
    return event;
  }
  event.reason = job.stop.matched() ? FinishReason::kStop : answer.reason();
  event.text = job.stop.finish();
  event.usage = answer.usage();
  return event;
}

std::optional<OpenAiFailure> OpenAiClient::attempt_all(Job& job, OpenAiAnswer& answer) {
  const OnText on_text = [&](std::string_view text) {
    TokenEvent event;
    event.text = job.stop.push(text);
    job.delivered = job.delivered || !text.empty();
    if (job.handler.on_token && !event.text.empty()) job.handler.on_token(event);
    return !job.stop.matched();
  };
  milliseconds wait{0};
  for (int attempt = 1;; ++attempt) {
    if (!wait_for_turn(job, wait)) fail(ErrorCode::kCancelled, "cancelled");
    const bool other_limit = other_limit_;
    const std::string body = openai_request_body(
        job.request,
        {.model = options_.model, .stream = options_.stream, .max_completion_tokens = other_limit});
    answer = {};
    std::optional<OpenAiFailure> failed = exchange_chat(
        endpoint_, body, [&] { return given_up(job); }, answer, on_text);
    if (!failed) return std::nullopt;
    if (failed->wants_other_limit && !other_limit) {
      other_limit_ = true;
      wait = milliseconds(0);
      --attempt;
      continue;
    }
    if (!failed->retryable || job.delivered) return failed;
    if (attempt >= options_.retry.max_attempts) {
      if (attempt > 1) failed->error.add_context(fmt::format("{} attempts", attempt));
      return failed;
    }
    wait = wait_after(*failed, attempt);
    log_debug("{}; asking again in {} ms", failed->error.what(), wait.count());
  }
}

milliseconds OpenAiClient::wait_after(const OpenAiFailure& failure, int failed_attempts) {
  const std::lock_guard lock(mutex_);
  const milliseconds wait = backoff_wait(options_.retry, failed_attempts, random_);
  if (!failure.retry_after) return wait;
  const milliseconds asked = std::min(*failure.retry_after, options_.retry.max_retry_after);
  paused_until_ = std::max(paused_until_, steady_clock::now() + asked);
  return std::max(asked, wait);
}

bool OpenAiClient::wait_for_turn(const Job& job, milliseconds wait) {
  std::unique_lock lock(mutex_);
  const steady_clock::time_point own = steady_clock::now() + wait;
  while (!given_up(job)) {
    const steady_clock::time_point until = std::max(own, paused_until_);
    if (steady_clock::now() >= until) return true;
    wake_.wait_until(lock, until);
  }
  return false;
}

void OpenAiClient::fail_waiting(const Error& error) {
  std::deque<std::shared_ptr<Job>> failed;
  {
    const std::lock_guard lock(mutex_);
    failed.swap(waiting_);
    counters_.requests_finished += static_cast<int64_t>(failed.size());
  }
  for (const auto& job : failed) {
    if (!job->handler.on_finish) continue;
    job->handler.on_finish(
        {.reason = FinishReason::kStop, .text = {}, .usage = {}, .error = std::make_exception_ptr(error)});
  }
}

std::future<ScoreResult> OpenAiClient::score(ScoreRequest) { fail_unsupported("scoring of given answers"); }

AdapterInfo OpenAiClient::load_adapter(const std::string&, const std::filesystem::path&) {
  fail_unsupported("adapters");
}

void OpenAiClient::unload_adapter(const std::string&) { fail_unsupported("adapters"); }

Prompt OpenAiClient::tokenize(const Prompt&, const AdapterChoice&) const { fail_unsupported("its tokens"); }

ScoreRequest OpenAiClient::tokenize(const ScoreRequest&) const {
  fail_unsupported("scoring of given answers");
}

ModelInfo OpenAiClient::info() const {
  return {.name = options_.model,
          .max_positions = options_.max_positions,
          .vocab_size = 0,
          .num_parameters = 0,
          .dtype = "",
          .device = endpoint_.base};
}

Counters OpenAiClient::counters() const {
  const std::lock_guard lock(mutex_);
  Counters counters = counters_;
  counters.requests_running = static_cast<int64_t>(running_.size());
  counters.requests_waiting = static_cast<int64_t>(waiting_.size());
  return counters;
}

}  // namespace calyrex::lm
