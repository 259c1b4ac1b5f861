#include "calyrex/lm/scripted_model.h"

#include <cmath>
#include <utility>

#include "calyrex/base/error.h"
#include "calyrex/lm/validation.h"

namespace calyrex::lm {
namespace {

void append_bytes(std::vector<TokenId>& ids, std::string_view text) {
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
}

/// Ids and spans of a chat: begin, role, end, content, end; the span is the content of system messages.
Prompt encode(const text::Messages& messages) {
  Prompt prompt;
  for (const text::Message& message : messages) {
    prompt.token_ids.push_back(ScriptedModel::kMessageBegin);
    append_bytes(prompt.token_ids, message.role);
    prompt.token_ids.push_back(ScriptedModel::kMessageEnd);
    const auto begin = static_cast<int64_t>(prompt.token_ids.size());
    append_bytes(prompt.token_ids, message.content);
    const auto end = static_cast<int64_t>(prompt.token_ids.size());
    if (message.role == "system" && end > begin) prompt.system_spans.push_back({begin, end});
    prompt.token_ids.push_back(ScriptedModel::kMessageEnd);
  }
  return prompt;
}

std::string default_answer(const GenerateRequest& request) {
  if (!request.prompt.messages.empty()) return request.prompt.messages.back().content;
  if (request.prompt.text) return *request.prompt.text;
  std::string text;
  for (const TokenId id : request.prompt.token_ids) {
    if (id < 256) text.push_back(static_cast<char>(id));
  }
  return text;
}

double uniform_logprob(const std::vector<TokenId>&, int64_t) {
  return -std::log(static_cast<double>(ScriptedModel::kVocabSize));
}

}  // namespace

ScriptedModel::ScriptedModel(ScriptedOptions options) : options_(std::move(options)) {
  if (!options_.answer) options_.answer = default_answer;
  if (!options_.logprob) options_.logprob = uniform_logprob;
  thread_ = std::thread([this] { serve(); });
}

ScriptedModel::~ScriptedModel() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void ScriptedModel::require_adapter(const AdapterChoice& adapter) const {
  validate_scale(adapter);
  if (!adapter.name.empty() && !adapters_.contains(adapter.name)) {
    fail(ErrorCode::kNotFound, "there is no adapter '{}'", adapter.name);
  }
}

RequestId ScriptedModel::submit(GenerateRequest request, EventHandler handler) {
  validate_request(request, kVocabSize);
  Prompt prompt = tokenize(request.prompt, request.adapter);
  const auto length = static_cast<int64_t>(prompt.token_ids.size());
  validate_length(length + 1, options_.max_positions);
  auto running = std::make_shared<Running>();
  running->usage.prompt_tokens = length;
  for (const TokenSpan& span : prompt.system_spans) running->usage.span_tokens += span.length();
  request.max_new_tokens = std::min(request.max_new_tokens, options_.max_positions - length);
  running->stop = StopMatcher(request.stop);
  running->request = std::move(request);
  running->handler = std::move(handler);
  const std::lock_guard lock(mutex_);
  if (static_cast<int64_t>(requests_.size()) >= options_.max_waiting) {
    fail(ErrorCode::kResourceExhausted, "{} requests are waiting already", requests_.size());
  }
  running->id = next_id_++;
  requests_.push_back(running);
  counters_.prompt_tokens += running->usage.prompt_tokens;
  wake_.notify_all();
  return running->id;
}

void ScriptedModel::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  for (const auto& running : requests_) {
    if (running->id == id) running->cancelled = true;
  }
}

void ScriptedModel::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !requests_.empty(); });
    if (requests_.empty()) return;
    const std::shared_ptr<Running> running = requests_.front();
    std::optional<End> end;
    if (running->cancelled || stopping_) end = {.reason = FinishReason::kCancelled, .error = nullptr};
    lock.unlock();
    if (!end) end = step(*running);
    lock.lock();
    requests_.pop_front();
    if (!end) {
      requests_.push_back(running);
      continue;
    }
    ++counters_.requests_finished;
    counters_.completion_tokens += running->usage.completion_tokens;
    lock.unlock();
    finish(*running, *end);
    lock.lock();
  }
}

std::optional<ScriptedModel::End> ScriptedModel::step(Running& running) {
  if (!running.started) {
    try {
      running.answer = options_.answer(running.request);
    } catch (...) {
      return End{.error = std::current_exception()};
    }
    running.started = true;
  }
  if (options_.token_delay.count() > 0) std::this_thread::sleep_for(options_.token_delay);
  const auto position = static_cast<size_t>(running.usage.completion_tokens);
  if (position == running.answer.size()) return End{};
  ++running.usage.completion_tokens;
  TokenEvent event;
  event.id = static_cast<unsigned char>(running.answer[position]);
  event.text = running.stop.push(running.answer.substr(position, 1));
  if (running.handler.on_token) running.handler.on_token(event);
  if (running.stop.matched()) return End{};
  if (running.usage.completion_tokens == running.request.max_new_tokens) {
    return End{.reason = FinishReason::kLength, .error = nullptr};
  }
  return std::nullopt;
}

void ScriptedModel::finish(Running& running, const End& end) {
  if (!running.handler.on_finish) return;
  running.handler.on_finish(
      {.reason = end.reason, .text = running.stop.finish(), .usage = running.usage, .error = end.error});
}

ScoreRequest ScriptedModel::tokenize(const ScoreRequest& request) const {
  ScoreRequest result{
      .prompt = {}, .completion = {}, .score_from = request.score_from, .adapter = request.adapter};
  if (!request.prompt.messages.empty() && !request.completion.empty()) {
    result.prompt = tokenize(request.prompt, request.adapter);
    result.score_from = static_cast<int64_t>(result.prompt.token_ids.size());
    append_bytes(result.prompt.token_ids, request.completion);
  } else if (!request.prompt.messages.empty()) {
    const text::Message& last = request.prompt.messages.back();
    if (last.role != "assistant") {
      fail(ErrorCode::kInvalidArgument, "the last message must be the assistant's to be scored");
    }
    result.prompt = encode(request.prompt.messages);
    result.score_from = static_cast<int64_t>(result.prompt.token_ids.size() - last.content.size()) - 1;
  } else if (request.prompt.text) {
    result.prompt.system_spans = request.prompt.system_spans;
    append_bytes(result.prompt.token_ids, *request.prompt.text);
    result.score_from = static_cast<int64_t>(result.prompt.token_ids.size());
    append_bytes(result.prompt.token_ids, request.completion);
  } else {
    result.prompt = request.prompt;
  }
  {
    const std::lock_guard lock(mutex_);
    require_adapter(request.adapter);
  }
  validate_token_ids(result.prompt.token_ids, result.prompt.system_spans, kVocabSize);
  validate_score_from(result.score_from, static_cast<int64_t>(result.prompt.token_ids.size()));
  validate_length(static_cast<int64_t>(result.prompt.token_ids.size()), options_.max_positions);
  return result;
}

std::future<ScoreResult> ScriptedModel::score(ScoreRequest request) {
  request = tokenize(request);
  ScoreResult result{.token_ids = std::move(request.prompt.token_ids),
                     .system_spans = std::move(request.prompt.system_spans),
                     .score_from = request.score_from,
                     .logprobs = {},
                     .greedy = {}};
  for (int64_t i = result.score_from; i < static_cast<int64_t>(result.token_ids.size()); ++i) {
    result.logprobs.push_back(options_.logprob(result.token_ids, i));
    result.greedy.push_back(false);
  }
  std::promise<ScoreResult> promise;
  promise.set_value(std::move(result));
  return promise.get_future();
}

AdapterInfo ScriptedModel::load_adapter(const std::string& name, const std::filesystem::path& path) {
  if (name.empty()) fail(ErrorCode::kInvalidArgument, "an adapter needs a name");
  if (!std::filesystem::is_directory(path)) fail(ErrorCode::kNotFound, "{}: no such folder", path.string());
  const std::lock_guard lock(mutex_);
  AdapterInfo info{
      .name = name, .path = path, .kind = "cal", .content_sha256 = path.string(), .num_parameters = 0};
  adapters_[name] = info;
  return info;
}

void ScriptedModel::unload_adapter(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (adapters_.erase(name) == 0) fail(ErrorCode::kNotFound, "there is no adapter '{}'", name);
}

std::vector<AdapterInfo> ScriptedModel::adapters() const {
  const std::lock_guard lock(mutex_);
  std::vector<AdapterInfo> infos;
  for (const auto& [name, info] : adapters_) infos.push_back(info);
  return infos;
}

Prompt ScriptedModel::tokenize(const Prompt& prompt, const AdapterChoice& adapter) const {
  {
    const std::lock_guard lock(mutex_);
    require_adapter(adapter);
  }
  Prompt result;
  if (!prompt.messages.empty()) {
    result = encode(prompt.messages);
    result.token_ids.push_back(kMessageBegin);
    append_bytes(result.token_ids, "assistant");
    result.token_ids.push_back(kMessageEnd);
  } else {
    result.system_spans = prompt.system_spans;
    result.token_ids = prompt.token_ids;
    if (prompt.text) append_bytes(result.token_ids, *prompt.text);
  }
  validate_token_ids(result.token_ids, result.system_spans, kVocabSize);
  return result;
}

ModelInfo ScriptedModel::info() const {
  return {.name = "scripted",
          .max_positions = options_.max_positions,
          .vocab_size = kVocabSize,
          .num_parameters = 0,
          .dtype = "float32",
          .device = "cpu"};
}

Counters ScriptedModel::counters() const {
  const std::lock_guard lock(mutex_);
  Counters counters = counters_;
  counters.requests_running = static_cast<int64_t>(requests_.size());
  return counters;
}

}  // namespace calyrex::lm
