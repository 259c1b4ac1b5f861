// An executor without a network: its "cache" holds token ids, and the next token is a hash of what a
// sequence's pages hold. Any mistake with pages, chunks or preemption changes the answer.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "calyrex/base/error.h"
#include "calyrex/infer/core/executor.h"

namespace calyrex::infer {

struct FakeOptions {
  int64_t num_pages = 64;
  int64_t page_size = 4;
  int64_t vocab_size = 288;
  TokenId first_answer = 100;  // answers are ids in [first_answer, vocab_size)
  std::chrono::microseconds step_time{0};
  int64_t fail_at_step = -1;
  int64_t most_resumed = 1 << 30;  // tokens
};

/// The token that follows `ids`.
inline TokenId fake_next(const std::vector<TokenId>& ids, double scale, const FakeOptions& options) {
  uint64_t hash = 1469598103934665603ull + static_cast<uint64_t>(scale * 1000.0);
  for (const TokenId id : ids) hash = (hash ^ static_cast<uint64_t>(id)) * 1099511628211ull;
  const auto range = static_cast<uint64_t>(options.vocab_size - options.first_answer);
  return options.first_answer + static_cast<TokenId>((hash >> 20) % range);
}

class FakeAdapter final : public ServedAdapter {
 public:
  int64_t num_parameters() const override { return 1; }
};

class FakeExecutor final : public Executor {
 public:
  explicit FakeExecutor(FakeOptions options)
      : options_(options), slots_(static_cast<size_t>(options.num_pages * options.page_size), -1) {}

  int64_t num_pages() const override { return options_.num_pages; }
  int64_t page_size() const override { return options_.page_size; }
  int64_t num_parameters() const override { return 0; }
  std::string dtype() const override { return "float32"; }
  std::string device() const override { return "cpu"; }

  std::vector<LogitsRow> step(std::span<const StepItem> items) override {
    CALYREX_CHECK(std::this_thread::get_id() == thread_, "another thread calls the executor");
    if (steps_++ == options_.fail_at_step) fail(ErrorCode::kOutOfMemory, "scripted failure");
    if (options_.step_time.count() > 0) std::this_thread::sleep_for(options_.step_time);
    std::map<PageId, lm::RequestId> written;
    rows_.clear();
    std::vector<LogitsRow> rows;
    for (const StepItem& item : items) {
      const Sequence& sequence = *item.sequence;
      CALYREX_CHECK(item.begin == sequence.computed && item.count > 0);
      CALYREX_CHECK(static_cast<int64_t>(sequence.pages.size()) * options_.page_size >=
                    item.begin + item.count);
      CALYREX_CHECK(std::set(sequence.pages.begin(), sequence.pages.end()).size() == sequence.pages.size());
      for (int64_t i = item.begin; i < item.begin + item.count; ++i) {
        const PageId page = sequence.pages[static_cast<size_t>(i / options_.page_size)];
        CALYREX_CHECK(written.try_emplace(page, sequence.id).first->second == sequence.id, "page {}", page);
        slot(sequence, i) = sequence.token_ids[i];
        ++computed_tokens;
      }
    }
    for (const StepItem& item : items) {
      for (const PageId page : item.sequence->pages) {
        const auto found = written.find(page);
        CALYREX_CHECK(found == written.end() || found->second == item.sequence->id, "page {} is shared",
                      page);
      }
      if (!item.completes()) continue;
      std::vector<TokenId> ids;
      for (int64_t i = 0; i < item.begin + item.count; ++i) ids.push_back(slot(*item.sequence, i));
      rows_.push_back(std::vector<float>(static_cast<size_t>(options_.vocab_size), 0.0f));
      const double scale = item.sequence->adapter == nullptr ? 0.0 : item.sequence->scale;
      const TokenId best = fake_next(ids, scale, options_);
      rows_.back()[static_cast<size_t>(best)] = 20.0f;
      rows.push_back({.logits = {}, .best = best, .log_sum_exp = 20.0});
    }
    for (size_t i = 0; i < rows.size(); ++i) rows[i].logits = rows_[i];
    return rows;
  }

  int64_t resume(const Sequence&, int64_t tokens) override { return std::min(tokens, options_.most_resumed); }
  void forget(const Sequence&) override {}

  std::vector<TokenScores> score(std::span<const ScoreItem* const> items) override {
    std::vector<TokenScores> scores;
    for (const ScoreItem* item : items) {
      CALYREX_CHECK(item->adapter == items.front()->adapter, "adapters mixed");
      TokenScores& one = scores.emplace_back();
      for (size_t i = static_cast<size_t>(item->score_from); i < item->token_ids.size(); ++i) {
        one.logprobs.push_back(-static_cast<double>(item->token_ids[i]));
        one.greedy.push_back(false);
      }
    }
    ++score_batches;
    return scores;
  }

  std::shared_ptr<const ServedAdapter> load_adapter(const weights::AdapterFolder&) override {
    CALYREX_CHECK(std::this_thread::get_id() == thread_, "another thread calls the executor");
    return std::make_shared<FakeAdapter>();
  }

  void parallel_for(int64_t count, const std::function<void(int64_t)>& f) override {
    for (int64_t i = 0; i < count; ++i) f(i);
  }

  std::atomic<int64_t> score_batches = 0;
  std::atomic<int64_t> computed_tokens = 0;

 private:
  TokenId& slot(const Sequence& sequence, int64_t position) {
    const PageId page = sequence.pages[static_cast<size_t>(position / options_.page_size)];
    return slots_[static_cast<size_t>(page * options_.page_size + position % options_.page_size)];
  }

  FakeOptions options_;
  std::vector<TokenId> slots_;
  std::vector<std::vector<float>> rows_;
  std::thread::id thread_ = std::this_thread::get_id();
  int64_t steps_ = 0;
};

}  // namespace calyrex::infer
