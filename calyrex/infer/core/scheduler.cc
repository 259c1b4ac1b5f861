#include "calyrex/infer/core/scheduler.h"

#include <algorithm>

#include "calyrex/base/error.h"

namespace calyrex::infer {

void Scheduler::remove(Sequence* sequence) {
  std::erase(waiting_, sequence);
  std::erase(running_, sequence);
  free_pages(*sequence);
}

void Scheduler::free_pages(Sequence& sequence) {
  // In reverse, so that the pool hands them out in the old order again.
  for (auto page = sequence.pages.rbegin(); page != sequence.pages.rend(); ++page) pool_.release(*page);
  sequence.pages.clear();
  sequence.computed = 0;
}

bool Scheduler::cover(Sequence& sequence, int64_t tokens) {
  const int64_t missing = pages_for(tokens) - static_cast<int64_t>(sequence.pages.size());
  return missing <= 0 || pool_.allocate(missing, sequence.pages);
}

bool Scheduler::cover_or_preempt(size_t index, Step& step) {
  Sequence& sequence = *running_[index];
  while (!cover(sequence, sequence.length())) {
    Sequence* youngest = running_.back();
    running_.pop_back();
    free_pages(*youngest);
    waiting_.push_front(youngest);
    step.preempted.push_back(youngest);
    if (youngest == &sequence) return false;
  }
  return true;
}

void Scheduler::admit() {
  while (!waiting_.empty() && num_running() < options_.max_running) {
    Sequence& sequence = *waiting_.front();
    // One page to spare unless it is alone: or the first new token might preempt it at once.
    const int64_t spare = running_.empty() ? 0 : 1;
    const int64_t pages = pages_for(sequence.length());
    if (pages + spare > pool_.num_free()) {
      CALYREX_CHECK(!running_.empty(), "a sequence of {} tokens fits into no cache", sequence.length());
      return;
    }
    cover(sequence, sequence.length());
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
  for (const Sequence* sequence : running_) {
    const int64_t missing = sequence->length() - sequence->computed;
    if (missing <= 1 || budget == 0) continue;
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
  }
}

}  // namespace calyrex::infer
