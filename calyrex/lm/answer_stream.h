// One request's answer, read piece by piece by the thread that asked.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "calyrex/lm/language_model.h"

namespace calyrex::lm {

/// Submits a request and buffers its events, so that a slow reader never holds up the engine. For one reading
/// thread. The destructor cancels an unfinished request; the model must outlive it.
class AnswerStream {
 public:
  /// Throws what submit() throws.
  AnswerStream(LanguageModel& model, GenerateRequest request);
  AnswerStream(const AnswerStream&) = delete;
  AnswerStream& operator=(const AnswerStream&) = delete;
  ~AnswerStream();

  /// The text that arrived since the last call, waiting up to `timeout` for some; empty when there was none
  /// in time.
  std::string read(std::chrono::milliseconds timeout);
  /// The answer has ended and all of its text has been read.
  bool done() const;
  void cancel();
  /// Waits for the end and returns the whole answer; throws the error that ended it.
  Completion finish();

 private:
  struct State;
  LanguageModel& model_;
  std::shared_ptr<State> state_;  // shared with the handler, which may outlive this object
  RequestId id_ = 0;
};

}  // namespace calyrex::lm
