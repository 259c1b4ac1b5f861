#include "calyrex/lm/answer_stream.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

namespace calyrex::lm {

struct AnswerStream::State {
  std::mutex mutex;
  std::condition_variable changed;
  Completion completion;
  std::string unread;
  bool ended = false;
  std::exception_ptr error;

  void add(std::string_view text) {
    completion.text += text;
    unread += text;
  }
};

AnswerStream::AnswerStream(LanguageModel& model, GenerateRequest request)
    : model_(model), state_(std::make_shared<State>()) {
  EventHandler handler;
  handler.on_token = [state = state_](const TokenEvent& event) {
    const std::lock_guard lock(state->mutex);
    state->completion.token_ids.push_back(event.id);
    state->completion.logprobs.push_back(event.logprob);
    state->add(event.text);
    state->changed.notify_all();
  };
  handler.on_finish = [state = state_](const FinishEvent& event) {
    const std::lock_guard lock(state->mutex);
    state->add(event.text);
    state->completion.reason = event.reason;
    state->completion.usage = event.usage;
    state->error = event.error;
    state->ended = true;
    state->changed.notify_all();
  };
  id_ = model_.submit(std::move(request), std::move(handler));
}

AnswerStream::~AnswerStream() {
  std::unique_lock lock(state_->mutex);
  const bool ended = state_->ended;
  lock.unlock();
  if (!ended) model_.cancel(id_);
}

std::string AnswerStream::read(std::chrono::milliseconds timeout) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, timeout, [this] { return state_->ended || !state_->unread.empty(); });
  return std::exchange(state_->unread, {});
}

bool AnswerStream::done() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ended && state_->unread.empty();
}

void AnswerStream::cancel() { model_.cancel(id_); }

Completion AnswerStream::finish() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->ended; });
  if (state_->error != nullptr) std::rethrow_exception(state_->error);
  return state_->completion;
}

}  // namespace calyrex::lm
