#include "calyrex/lm/language_model.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "calyrex/base/error.h"

namespace calyrex::lm {
namespace {

/// Requests of one generate_all() call under way at a time: enough to fill any batch, few enough for any
/// queue.
constexpr int64_t kMaxUnderWay = 256;

/// Answers of one generate_all() call as they arrive from the engine's thread.
class Collector {
 public:
  Collector(size_t count, const std::function<void(int64_t)>& progress)
      : results_(count), progress_(progress) {}

  EventHandler handler(size_t index) {
    return {.on_token = [this, index](const TokenEvent& event) { add(results_[index], event); },
            .on_finish = [this, index](const FinishEvent& event) { finish(results_[index], event); }};
  }

  void started() {
    const std::lock_guard lock(mutex_);
    ++under_way_;
  }

  /// Waits until fewer than `limit` are under way; false when a request has failed.
  bool wait_below(int64_t limit) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return under_way_ < limit; });
    return error_ == nullptr;
  }

  void fail_with(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    --under_way_;
    if (error_ == nullptr) error_ = std::move(error);
  }

  std::vector<Completion> take() {
    wait_below(1);
    if (error_ != nullptr) std::rethrow_exception(error_);
    return std::move(results_);
  }

 private:
  static void add(Completion& result, const TokenEvent& event) {
    result.text += event.text;
    result.token_ids.push_back(event.id);
    result.logprobs.push_back(event.logprob);
  }

  void finish(Completion& result, const FinishEvent& event) {
    result.text += event.text;
    result.reason = event.reason;
    result.usage = event.usage;
    // Notified under the lock: the collector may be gone as soon as the waiting thread sees the count.
    const std::lock_guard lock(mutex_);
    if (event.error != nullptr && error_ == nullptr) error_ = event.error;
    if (progress_) progress_(++done_);
    --under_way_;
    changed_.notify_all();
  }

  std::vector<Completion> results_;
  const std::function<void(int64_t)>& progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t under_way_ = 0;
  int64_t done_ = 0;
  std::exception_ptr error_;
};

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "?";
}

std::vector<Completion> generate_all(LanguageModel& model, std::vector<GenerateRequest> requests,
                                     const std::function<void(int64_t done)>& progress) {
  Collector collector(requests.size(), progress);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!collector.wait_below(kMaxUnderWay)) break;
    collector.started();
    try {
      model.submit(std::move(requests[i]), collector.handler(i));
    } catch (...) {
      collector.fail_with(std::current_exception());
      break;
    }
  }
  return collector.take();
}

}  // namespace calyrex::lm
