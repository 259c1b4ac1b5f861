// Continuous batching: which tokens of which sequences the next step computes (after Yu et al., "Orca", 2022,
// and Kwon et al., "Efficient memory management for large language model serving with PagedAttention", 2023).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "calyrex/infer/core/executor.h"
#include "calyrex/infer/core/page_pool.h"
#include "calyrex/infer/core/sequence.h"

namespace calyrex::infer {

struct SchedulerOptions {
  int64_t max_running = 64;
  int64_t prefill_tokens = 1024;  // of all prompts together, a step
  int64_t page_size = 16;
};

/// Every running sequence that only lacks its last token is in every step; prompts are computed in chunks
/// beside them. A sequence is admitted, first come first served, when its whole length fits into free pages.
/// When decoding runs out of pages, the youngest sequence gives its pages back and waits to be computed anew,
/// before all others. Thread-compatible; does not own the sequences.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, PagePool& pool) : options_(options), pool_(pool) {}

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
  void free_pages(Sequence& sequence);
  /// Pages for one more token of the sequence, preempting younger ones; false when it was preempted itself.
  bool cover_or_preempt(size_t index, Step& step);
  void admit();

  SchedulerOptions options_;
  PagePool& pool_;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;  // in order of admission
};

}  // namespace calyrex::infer
