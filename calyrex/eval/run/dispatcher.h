// Requests under way at a model, and what has come back.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "calyrex/eval/core/task.h"
#include "calyrex/lm/language_model.h"

namespace calyrex::eval {

/// A reply, or the error that came instead.
struct Arrival {
  int64_t ticket = 0;
  Reply reply;
  std::exception_ptr error;
};

/// Sends requests and collects replies for one thread, which gives each a ticket. The models must outlive it.
class Dispatcher {
 public:
  Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;
  /// Cancels what is under way; what still comes of it is dropped.
  ~Dispatcher();

  /// Throw what the model throws at once; then the ticket is not under way.
  void generate(int64_t ticket, lm::LanguageModel& model, lm::GenerateRequest request);
  void score(int64_t ticket, lm::LanguageModel& model, lm::ScoreRequest request);

  /// What has come since the last call, waiting up to `timeout` for something.
  std::vector<Arrival> wait(std::chrono::milliseconds timeout);

  int64_t generating() const { return static_cast<int64_t>(generating_.size()); }
  int64_t scoring() const { return scoring_; }

 private:
  class Mailbox;
  class ScoreWaiter;

  std::shared_ptr<Mailbox> mailbox_;  // shared with handlers, which may outlive this object
  std::unique_ptr<ScoreWaiter> waiter_;
  std::map<int64_t, std::pair<lm::LanguageModel*, lm::RequestId>> generating_;
  int64_t scoring_ = 0;
};

}  // namespace calyrex::eval
