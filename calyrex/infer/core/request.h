// One generation request on its way: its sequence, its sampler, and the text it has become so far.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "calyrex/infer/core/sampler.h"
#include "calyrex/infer/core/sequence.h"
#include "calyrex/lm/language_model.h"
#include "calyrex/lm/stop_matcher.h"
#include "calyrex/text/tokenizer.h"

namespace calyrex::infer {

/// Used by the engine's thread alone once submitted.
class Request {
 public:
  struct Setup {
    lm::GenerateRequest request;  // its prompt is not used
    lm::Prompt prompt;            // token ids and spans
    lm::EventHandler handler;
    std::shared_ptr<const ServedAdapter> adapter;
    std::shared_ptr<const text::Tokenizer> tokenizer;
    std::vector<TokenId> stop_ids;
    uint64_t seed = 0;
    int64_t max_tokens = 0;  // of the whole sequence
  };
  Request(lm::RequestId id, Setup setup);

  Sequence& sequence() { return sequence_; }
  lm::RequestId id() const { return sequence_.id; }
  const lm::Usage& usage() const { return usage_; }

  /// Chooses the next token; different requests may do so at the same time. An error is kept for accept().
  void sample(const LogitsRow& row);
  /// Why a request ends, or the error that ends it.
  struct End {
    lm::FinishReason reason = lm::FinishReason::kStop;
    std::exception_ptr error;
  };
  /// Takes the chosen token in and tells the handler of it; says whether the answer has ended.
  std::optional<End> accept();
  /// Tells the handler that the request has ended.
  void finish(const End& end);

 private:
  std::optional<lm::FinishReason> advance();

  Sequence sequence_;
  Sampler sampler_;
  text::StreamingDecoder decoder_;
  lm::StopMatcher stop_;
  lm::EventHandler handler_;
  std::vector<TokenId> stop_ids_;
  int64_t max_tokens_;
  lm::Usage usage_;
  SampledToken sampled_;
  std::exception_ptr sampling_error_;
};

}  // namespace calyrex::infer
