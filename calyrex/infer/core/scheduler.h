// Continuous batching: which tokens of which sequences the next step computes (after Yu et al., "Orca", 2022,
// and Kwon et al., "Efficient memory management for large language model serving with PagedAttention", 2023).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "calyrex/infer/core/executor.h"
#include "calyrex/infer/core/page_pool.h"
#include "calyrex/infer/core/prefix_index.h"
#include "calyrex/infer/core/sequence.h"

namespace calyrex::infer {

struct SchedulerOptions {
  int64_t max_running = 64;
  int64_t prefill_tokens = 1024;  // of all prompts together, a step
  int64_t page_size = 16;
  bool reuse_prefixes = true;
};

/// Every running sequence that only lacks its last token is in every step; prompts are computed in chunks
/// beside them. A sequence is admitted, first come first served, when its whole length fits into free pages.
/// When decoding runs out of pages, the youngest sequence gives its pages back and waits to be computed anew,
/// before all others. A sequence begins behind the pages that earlier ones computed of the same tokens; one
/// that has much in common with a prompt being computed waits for it. Thread-compatible; does not own the
/// sequences.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, PagePool& pool, Executor& executor)
      : options_(options), pool_(pool), executor_(executor), prefixes_(pool, options.page_size) {}

  /// Tokens a sequence may have at most, so that it can always run alone.
  int64_t max_sequence_tokens() const { return pool_.num_pages() * options_.page_size; }

  void add(Sequence* sequence) { waiting_.push_back(sequence); }
  /// Takes a sequence out, wherever it is, and frees its pages.
  void remove(Sequence* sequence);

  struct Step {
    std::vector<StepItem> items;
    std::vector<Sequence*> preempted;  // lost their pages
  };
  /// The next step; no items when nothing waits or runs. Sequences' pages cover the items.
  Step next();
  /// Notes that a step has been computed.
  void advance(const Step& step);

  bool idle() const { return waiting_.empty() && running_.empty(); }
  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }

 private:
  int64_t pages_for(int64_t tokens) const { return (tokens + options_.page_size - 1) / options_.page_size; }
  bool cover(Sequence& sequence, int64_t tokens);
  /// Pages for one more token of the sequence, preempting younger ones; false when it was preempted itself.
  bool cover_or_preempt(size_t index, Step& step);
  void admit();
  /// Lets a sequence of which nothing is computed begin behind what is there.
  void reuse_prefix(Sequence& sequence);
  /// Whether this step computes so much of a sequence's prompt for another one that it should wait.
  bool waits_for_prefix(const Sequence& sequence, const Step& step) const;

  SchedulerOptions options_;
  PagePool& pool_;
  Executor& executor_;
  PrefixIndex prefixes_;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;  // in order of admission
};

}  // namespace calyrex::infer
