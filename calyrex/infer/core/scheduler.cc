#include "calyrex/infer/core/scheduler.h"

#include <algorithm>

#include "calyrex/base/error.h"

namespace calyrex::infer {
namespace {

/// Tokens of a prompt that are worth a step of waiting.
constexpr int64_t kWorthWaiting = 64;

}  // namespace

void Scheduler::remove(Sequence* sequence) {
  std::erase(waiting_, sequence);
  std::erase(running_, sequence);
  prefixes_.release(*sequence);
}

bool Scheduler::cover(Sequence& sequence, int64_t tokens) {
  const int64_t missing = pages_for(tokens) - static_cast<int64_t>(sequence.pages.size());
  return missing <= 0 || (prefixes_.make_room(missing) && pool_.allocate(missing, sequence.pages));
}

bool Scheduler::cover_or_preempt(size_t index, Step& step) {
  Sequence& sequence = *running_[index];
  while (!cover(sequence, sequence.length())) {
    Sequence* youngest = running_.back();
    running_.pop_back();
    executor_.forget(*youngest);  // while it still says how much of it is computed
    prefixes_.release(*youngest);
    waiting_.push_front(youngest);
    step.preempted.push_back(youngest);
    if (youngest == &sequence) return false;
  }
  return true;
}

void Scheduler::reuse_prefix(Sequence& sequence) {
  if (!options_.reuse_prefixes) return;
  const std::vector<PageId> found = prefixes_.find(sequence);
  if (found.empty()) return;
  const auto tokens = static_cast<int64_t>(found.size()) * options_.page_size;
  if (tokens <= sequence.computed) return;
  const int64_t pages = executor_.resume(sequence, tokens) / options_.page_size;
  if (pages * options_.page_size > sequence.computed)
    prefixes_.adopt(sequence, std::span(found).first(static_cast<size_t>(pages)));
}

bool Scheduler::waits_for_prefix(const Sequence& sequence, const Step& step) const {
  if (!options_.reuse_prefixes) return false;
  return std::ranges::any_of(step.items, [&](const StepItem& item) {
    const Sequence& other = *item.sequence;
    if (item.count == 1 || other.adapter != sequence.adapter || other.scale != sequence.scale) return false;
    const auto most = std::min(item.begin + item.count, sequence.length() - 1);
    const auto [mine, theirs] = std::mismatch(sequence.token_ids.begin(), sequence.token_ids.begin() + most,
                                              other.token_ids.begin(), other.token_ids.end());
    return mine - sequence.token_ids.begin() >= sequence.computed + kWorthWaiting &&
           other.system_spans == sequence.system_spans;
  });
}

void Scheduler::admit() {
  while (!waiting_.empty() && num_running() < options_.max_running) {
    Sequence& sequence = *waiting_.front();
    // One page to spare unless it is alone: or the first new token might preempt it at once.
    const int64_t spare = running_.empty() ? 0 : 1;
    const int64_t pages = pages_for(sequence.length());
    if (pages + spare > pool_.num_free() + pool_.num_idle()) {
      CALYREX_CHECK(!running_.empty(), "a sequence of {} tokens fits into no cache", sequence.length());
      return;
    }
    reuse_prefix(sequence);
    CALYREX_CHECK(cover(sequence, sequence.length()), "{} pages", pages);
    running_.push_back(&sequence);
    waiting_.pop_front();
  }
}

Scheduler::Step Scheduler::next() {
  Step step;
  for (size_t i = 0; i < running_.size(); ++i) {
    if (!cover_or_preempt(i, step)) break;
  }
  if (step.preempted.empty()) admit();
  for (const Sequence* sequence : running_) {
    if (sequence->length() - sequence->computed == 1) {
      step.items.push_back({.sequence = sequence, .begin = sequence->computed, .count = 1});
    }
  }
  int64_t budget = options_.prefill_tokens;
  for (Sequence* sequence : running_) {
    if (sequence->length() - sequence->computed <= 1 || budget == 0) continue;
    // Nothing of its own is computed yet, and meanwhile others may have computed more of what it begins with.
    if (sequence->computed == sequence->reused) reuse_prefix(*sequence);
    if (waits_for_prefix(*sequence, step)) continue;
    const int64_t missing = sequence->length() - sequence->computed;
    const int64_t count = std::min(missing, budget);
    budget -= count;
    step.items.push_back({.sequence = sequence, .begin = sequence->computed, .count = count});
  }
  return step;
}

void Scheduler::advance(const Step& step) {
  for (Sequence* sequence : running_) {
    for (const StepItem& item : step.items) {
      if (item.sequence == sequence) sequence->computed += item.count;
    }
    if (options_.reuse_prefixes) prefixes_.insert(*sequence);
  }
}

}  // namespace calyrex::infer
