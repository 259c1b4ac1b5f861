#include "calyrex/eval/run/dispatcher.h"

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

namespace calyrex::eval {

class Dispatcher::Mailbox {
 public:
  void push(Arrival arrival) {
    const std::lock_guard lock(mutex_);
    arrivals_.push_back(std::move(arrival));
    changed_.notify_all();
  }

  std::vector<Arrival> wait(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [this] { return !arrivals_.empty(); });
    return std::exchange(arrivals_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Arrival> arrivals_;
};

/// Scores come as futures: one thread waits for them in the order they were asked for, which is about the
/// order in which they are ready.
class Dispatcher::ScoreWaiter {
 public:
  explicit ScoreWaiter(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {
    thread_ = std::thread([this] { serve(); });
  }
  ~ScoreWaiter() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void add(int64_t ticket, std::future<lm::ScoreResult> result) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(ticket, std::move(result));
    changed_.notify_all();
  }

 private:
  /// How soon the thread sees that it shall end while a score is computed.
  static constexpr std::chrono::milliseconds kGlance{50};

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      std::pair<int64_t, std::future<lm::ScoreResult>> next = std::move(waiting_.front());
      waiting_.pop_front();
      while (!stopping_) {
        lock.unlock();
        const bool ready = next.second.wait_for(kGlance) == std::future_status::ready;
        if (ready) mailbox_->push(arrival(next.first, next.second));
        lock.lock();
        if (ready) break;
      }
    }
  }

  static Arrival arrival(int64_t ticket, std::future<lm::ScoreResult>& future) {
    Arrival arrival{.ticket = ticket, .reply = {}, .error = nullptr};
    try {
      lm::ScoreResult result = future.get();
      arrival.reply.logprobs = std::move(result.logprobs);
      arrival.reply.greedy = true;
      for (const bool likeliest : result.greedy) arrival.reply.greedy = arrival.reply.greedy && likeliest;
    } catch (...) {
      arrival.error = std::current_exception();
    }
    return arrival;
  }

  std::shared_ptr<Mailbox> mailbox_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<int64_t, std::future<lm::ScoreResult>>> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

Dispatcher::Dispatcher() : mailbox_(std::make_shared<Mailbox>()) {}

Dispatcher::~Dispatcher() {
  for (const auto& [ticket, request] : generating_) request.first->cancel(request.second);
}

void Dispatcher::generate(int64_t ticket, lm::LanguageModel& model, lm::GenerateRequest request) {
  // Filled by the model's thread alone.
  auto arrival = std::make_shared<Arrival>(Arrival{.ticket = ticket, .reply = {}, .error = nullptr});
  lm::EventHandler handler;
  handler.on_token = [arrival](const lm::TokenEvent& event) { arrival->reply.text += event.text; };
  handler.on_finish = [arrival, mailbox = mailbox_](const lm::FinishEvent& event) {
    arrival->reply.text += event.text;
    arrival->reply.truncated = event.reason == lm::FinishReason::kLength;
    arrival->error = event.error;
    mailbox->push(std::move(*arrival));
  };
  generating_[ticket] = {&model, model.submit(std::move(request), std::move(handler))};
}

void Dispatcher::score(int64_t ticket, lm::LanguageModel& model, lm::ScoreRequest request) {
  if (waiter_ == nullptr) waiter_ = std::make_unique<ScoreWaiter>(mailbox_);
  waiter_->add(ticket, model.score(std::move(request)));
  ++scoring_;
}

std::vector<Arrival> Dispatcher::wait(std::chrono::milliseconds timeout) {
  std::vector<Arrival> arrivals = mailbox_->wait(timeout);
  for (const Arrival& arrival : arrivals) {
    if (generating_.erase(arrival.ticket) == 0) --scoring_;
  }
  return arrivals;
}

}  // namespace calyrex::eval
