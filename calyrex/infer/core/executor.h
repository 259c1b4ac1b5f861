// What the engine asks of the part that computes. Called from the engine's thread alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "calyrex/infer/core/sampler.h"
#include "calyrex/infer/core/sequence.h"
#include "calyrex/weights/adapter_folder.h"

namespace calyrex::infer {

/// Tokens [begin, begin + count) of a sequence, to be computed in one step. Its pages cover them.
struct StepItem {
  const Sequence* sequence = nullptr;
  int64_t begin = 0;
  int64_t count = 0;

  /// The step computes the sequence's last token, so the next one can be sampled.
  bool completes() const { return begin + count == sequence->length(); }
};

/// A sequence to score: log-probabilities of its tokens from `score_from` on.
struct ScoreItem {
  std::vector<TokenId> token_ids;
  TokenSpans system_spans;
  std::shared_ptr<const ServedAdapter> adapter;
  double scale = 1.0;
  int64_t score_from = 1;
};

/// Whether two items (of one adapter and scale) differ in their last token at most and score only that: then
/// one computation serves both, as for the letters of a multiple-choice question.
bool share_computation(const ScoreItem& a, const ScoreItem& b);

struct TokenScores {
  std::vector<double> logprobs;
  std::vector<bool> greedy;
};

class Executor {
 public:
  virtual ~Executor() = default;

  /// The cache: pages, and tokens a page holds.
  virtual int64_t num_pages() const = 0;
  virtual int64_t page_size() const = 0;
  virtual int64_t num_parameters() const = 0;
  virtual std::string dtype() const = 0;
  virtual std::string device() const = 0;

  /// Computes all items in one batch. Returns a row for each item that completes its sequence, in order; the
  /// rows are valid until the next call.
  virtual std::vector<LogitsRow> step(std::span<const StepItem> items) = 0;
  /// A sequence is to begin behind `tokens` tokens, whose pages an earlier one computed. Returns behind how
  /// many it can begin at most: fewer when something else is no longer there that goes with them (an
  /// adapter's keys of the span).
  virtual int64_t resume(const Sequence& sequence, int64_t tokens) = 0;
  /// Drops what is kept for a sequence besides its pages: it has ended, or starts anew.
  virtual void forget(const Sequence& sequence) = 0;
  /// Scores sequences of one adapter and scale in one batch, without the cache. Neighbours that
  /// share_computation() are computed once.
  virtual std::vector<TokenScores> score(std::span<const ScoreItem* const> items) = 0;
  virtual std::shared_ptr<const ServedAdapter> load_adapter(const weights::AdapterFolder& folder) = 0;
  /// Calls f(0) ... f(count - 1), possibly from several threads.
  virtual void parallel_for(int64_t count, const std::function<void(int64_t)>& f) = 0;
};

}  // namespace calyrex::infer
