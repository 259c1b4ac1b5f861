// A language model that says what a test tells it to: no weights, no torch, the same contract as the engine.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "calyrex/lm/language_model.h"
#include "calyrex/lm/stop_matcher.h"

namespace calyrex::lm {

/// What a scripted model does. Texts become one token a byte (id = byte); kMessageBegin and kMessageEnd stand
/// around messages.
struct ScriptedOptions {
  /// The answer to a request. Default: the last message's content (for ids: the text of the bytes among
  /// them). May throw; the error ends the request.
  std::function<std::string(const GenerateRequest&)> answer;
  /// Log-probability of a token. Default: uniform over the vocabulary.
  std::function<double(const std::vector<TokenId>& ids, int64_t position)> logprob;
  int64_t max_positions = 4096;
  int64_t max_waiting = 1024;
  std::chrono::microseconds token_delay{0};
};

/// One thread serves all requests, a token of each in turn.
class ScriptedModel final : public LanguageModel {
 public:
  static constexpr TokenId kMessageBegin = 256;
  static constexpr TokenId kMessageEnd = 257;
  static constexpr int64_t kVocabSize = 258;

  explicit ScriptedModel(ScriptedOptions options = {});
  /// Cancels what is still running.
  ~ScriptedModel() override;

  RequestId submit(GenerateRequest request, EventHandler handler) override;
  void cancel(RequestId id) override;
  std::future<ScoreResult> score(ScoreRequest request) override;
  /// Accepts any folder that exists; its content hash is its path.
  AdapterInfo load_adapter(const std::string& name, const std::filesystem::path& path) override;
  void unload_adapter(const std::string& name) override;
  std::vector<AdapterInfo> adapters() const override;
  Prompt tokenize(const Prompt& prompt, const AdapterChoice& adapter) const override;
  ScoreRequest tokenize(const ScoreRequest& request) const override;
  ModelInfo info() const override;
  Counters counters() const override;

 private:
  struct Running {
    RequestId id = 0;
    GenerateRequest request;
    EventHandler handler;
    StopMatcher stop{{}};
    std::string answer;
    Usage usage;
    bool started = false;
    bool cancelled = false;
  };

  struct End {
    FinishReason reason = FinishReason::kStop;
    std::exception_ptr error;
  };

  void serve();
  /// Produces one token of a request; says whether the request has ended.
  std::optional<End> step(Running& running);
  static void finish(Running& running, const End& end);
  void require_adapter(const AdapterChoice& adapter) const;

  ScriptedOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Running>> requests_;
  std::map<std::string, AdapterInfo> adapters_;
  Counters counters_;
  RequestId next_id_ = 1;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace calyrex::lm
