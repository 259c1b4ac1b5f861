// The engine: one thread that owns the model, batches whatever requests there are, and answers through
// events.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "calyrex/base/random.h"
#include "calyrex/infer/core/executor.h"
#include "calyrex/infer/core/prompt_encoder.h"
#include "calyrex/infer/core/request.h"
#include "calyrex/infer/core/scheduler.h"
#include "calyrex/lm/language_model.h"
#include "calyrex/lm/local_model.h"
#include "calyrex/weights/model_source.h"

namespace calyrex::infer {

/// Implements lm::LanguageModel over an Executor. Requests are encoded and validated on the caller's thread;
/// the engine's thread is the only one that calls the executor. Torch-free, so that its threading can be
/// tested without torch.
class Engine final : public lm::LanguageModel {
 public:
  /// Called once, on the engine's thread.
  using OpenExecutor = std::function<std::unique_ptr<Executor>()>;

  /// Returns when the executor is open; throws what opening it threw.
  Engine(std::shared_ptr<const weights::ModelSource> model, lm::LocalModelOptions options, OpenExecutor open);
  /// Cancels what is unfinished.
  ~Engine() override;

  lm::RequestId submit(lm::GenerateRequest request, lm::EventHandler handler) override;
  void cancel(lm::RequestId id) override;
  std::future<lm::ScoreResult> score(lm::ScoreRequest request) override;
  lm::AdapterInfo load_adapter(const std::string& name, const std::filesystem::path& path) override;
  void unload_adapter(const std::string& name) override;
  std::vector<lm::AdapterInfo> adapters() const override;
  lm::Prompt tokenize(const lm::Prompt& prompt, const lm::AdapterChoice& adapter) const override;
  lm::ScoreRequest tokenize(const lm::ScoreRequest& request) const override;
  lm::ModelInfo info() const override;
  lm::Counters counters() const override;

 private:
  struct LoadedAdapter {
    LoadedAdapter(const Engine& engine, const weights::AdapterFolder& folder, lm::AdapterInfo info,
                  std::shared_ptr<const ServedAdapter> served);

    lm::AdapterInfo info;
    PromptEncoder encoder;
    std::shared_ptr<const ServedAdapter> served;
  };
  struct ScoreJob {
    ScoreItem item;
    std::promise<lm::ScoreResult> promise;
  };
  /// What other threads leave for the engine's thread.
  struct Inbox {
    std::vector<std::unique_ptr<Request>> requests;
    std::vector<lm::RequestId> cancelled;
    std::vector<ScoreJob> scores;
    std::vector<std::function<void()>> calls;

    bool empty() const { return requests.empty() && cancelled.empty() && scores.empty() && calls.empty(); }
  };

  /// The adapter of a name (null for the base). kNotFound.
  std::shared_ptr<const LoadedAdapter> find_adapter(const lm::AdapterChoice& choice) const;
  const PromptEncoder& encoder(const LoadedAdapter* adapter) const;

  // On the engine's thread.
  void serve(std::promise<void> opened, const OpenExecutor& open);
  void open_executor(const OpenExecutor& open);
  /// Returns at once while there is work; nothing when the engine closes.
  std::optional<Inbox> wait_for_work();
  void take_in(Inbox inbox);
  void run_step();
  void run_scores();
  std::vector<ScoreJob> next_score_batch();
  /// Removes a request, frees what it held, counts it, and then tells its handler.
  void end(lm::RequestId id, const Request::End& end);
  void end_all();
  void publish_counters();

  const std::shared_ptr<const weights::ModelSource> model_;
  const lm::LocalModelOptions options_;
  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const PromptEncoder base_encoder_;

  mutable std::mutex mutex_;  // guards what follows, up to the engine's own
  std::condition_variable wake_;
  Inbox inbox_;
  bool stopping_ = false;
  std::map<std::string, std::shared_ptr<const LoadedAdapter>> adapters_;
  RandomStream seeds_;
  lm::RequestId next_id_ = 1;
  lm::Counters counters_;
  int64_t unfinished_ = 0;  // requests and scores

  std::mutex loading_mutex_;  // one adapter is loaded at a time

  // Of the engine's thread (what is constant after opening may be read by all).
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<lm::RequestId, std::unique_ptr<Request>> requests_;
  std::deque<ScoreJob> score_jobs_;
  lm::ModelInfo info_;
  int64_t max_sequence_tokens_ = 0;

  std::thread thread_;
};

}  // namespace calyrex::infer
