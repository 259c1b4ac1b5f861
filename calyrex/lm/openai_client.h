// Any OpenAI-compatible endpoint as a language model: chat completions over HTTP.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "calyrex/base/random.h"
#include "calyrex/lm/language_model.h"
#include "calyrex/lm/openai_exchange.h"
#include "calyrex/lm/openai_retry.h"

namespace calyrex::lm {

struct OpenAiOptions {
  std::string url;                                  // "https://host/v1"; a bare host gets "/v1"
  std::string model;                                // empty: the first that the endpoint lists
  std::string api_key_variable = "OPENAI_API_KEY";  // environment variable that holds the key; may be unset
  int64_t concurrency = 8;                          // requests under way at a time, 1 to 256
  int64_t max_waiting = 100'000;
  bool stream = false;  // tokens as they come; an answer cut off after its first text is then an error
  int64_t max_positions = int64_t{1} << 30;  // context of the model, which an endpoint does not tell
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds answer_timeout{600'000};
  size_t max_answer_bytes = size_t{16} << 20;
  RetryOptions retry;
};

/// A TokenEvent is a piece of text here; ids and log-probabilities are not known (0). Requests that fail for
/// now (429, 5xx, no connection, an answer that is cut off or unreadable) are sent again; Retry-After holds
/// up all requests. When an endpoint stays down, the request and all that wait end with kUnavailable.
/// score(), tokenize() and adapters throw kUnsupported.
class OpenAiClient final : public LanguageModel {
 public:
  /// Throws kInvalidArgument (address, key), kUnavailable (no model given and the endpoint lists none).
  explicit OpenAiClient(OpenAiOptions options);
  /// Cancels what is unfinished; a request on its way may take a second to end.
  ~OpenAiClient() override;

  RequestId submit(GenerateRequest request, EventHandler handler) override;
  void cancel(RequestId id) override;
  std::future<ScoreResult> score(ScoreRequest request) override;
  AdapterInfo load_adapter(const std::string& name, const std::filesystem::path& path) override;
  void unload_adapter(const std::string& name) override;
  std::vector<AdapterInfo> adapters() const override { return {}; }
  Prompt tokenize(const Prompt& prompt, const AdapterChoice& adapter) const override;
  ScoreRequest tokenize(const ScoreRequest& request) const override;
  ModelInfo info() const override;
  Counters counters() const override;

 private:
  struct Job;

  void work();
  FinishEvent serve(Job& job);
  /// The failure that ended the attempts; none: `answer` is complete.
  std::optional<OpenAiFailure> attempt_all(Job& job, OpenAiAnswer& answer);
  /// Waits before an attempt; false when the job was cancelled meanwhile.
  bool wait_for_turn(const Job& job, std::chrono::milliseconds wait);
  std::chrono::milliseconds wait_after(const OpenAiFailure& failure, int failed_attempts);
  void find_model();
  /// Takes the requests that wait out of the queue, as an endpoint that is down answers none of them.
  void fail_waiting(const Error& error);
  bool given_up(const Job& job) const;

  OpenAiOptions options_;
  OpenAiEndpoint endpoint_;
  std::atomic<bool> other_limit_ = false;  // the endpoint wants "max_completion_tokens"
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> waiting_;
  std::map<RequestId, std::shared_ptr<Job>> running_;
  std::chrono::steady_clock::time_point paused_until_;
  RandomStream random_;
  Counters counters_;
  RequestId next_id_ = 1;
  std::vector<std::thread> threads_;
};

}  // namespace calyrex::lm
