#include "calyrex/infer/core/scheduler.h"

#include <memory>
#include <numeric>

#include <gtest/gtest.h>

#include "calyrex/base/error.h"
#include "tests/infer/core/fake_executor.h"

namespace calyrex::infer {
namespace {

Sequence sequence_of(lm::RequestId id, size_t length) {
  Sequence sequence;
  sequence.id = id;
  sequence.token_ids.assign(length, static_cast<TokenId>(id));
  return sequence;
}

struct Counted {
  lm::RequestId id;
  int64_t begin;
  int64_t count;
  bool operator==(const Counted&) const = default;
};

std::vector<Counted> items_of(const Scheduler::Step& step) {
  std::vector<Counted> items;
  for (const StepItem& item : step.items) items.push_back({item.sequence->id, item.begin, item.count});
  return items;
}

TEST(PagePool, CountsReferences) {
  PagePool pool(3);
  std::vector<PageId> pages;
  ASSERT_TRUE(pool.allocate(2, pages));
  EXPECT_EQ(pages, (std::vector<PageId>{0, 1}));
  EXPECT_FALSE(pool.allocate(2, pages));
  EXPECT_EQ(pages.size(), 2u);
  pool.retain(1);
  pool.release(1);
  EXPECT_EQ(pool.num_free(), 1);
  pool.release(1);
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_THROW(pool.release(1), Error);
  EXPECT_THROW(pool.retain(2), Error);
  pool.grow(5);
  pages.clear();
  ASSERT_TRUE(pool.allocate(4, pages));
  EXPECT_EQ(pool.num_free(), 0);
}

TEST(PagePool, KeptPagesBecomeIdleInsteadOfFree) {
  PagePool pool(2);
  std::vector<PageId> pages;
  ASSERT_TRUE(pool.allocate(1, pages));
  EXPECT_THROW(pool.keep(1), Error);
  pool.keep(0);
  EXPECT_FALSE(pool.is_idle(0));
  EXPECT_THROW(pool.drop(0), Error);
  pool.release(0);
  EXPECT_TRUE(pool.is_idle(0));
  EXPECT_EQ(pool.num_idle(), 1);
  EXPECT_EQ(pool.num_free(), 1);
  pool.retain(0);
  EXPECT_EQ(pool.num_idle(), 0);
  pool.release(0);
  pool.drop(0);
  EXPECT_EQ(pool.num_idle(), 0);
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_THROW(pool.retain(0), Error);
}

TEST(Scheduler, PrefillsInChunksBesideDecodes) {
  PagePool pool(100);
  FakeExecutor executor({});
  Scheduler scheduler({.max_running = 8, .prefill_tokens = 10, .page_size = 4}, pool, executor);
  Sequence a = sequence_of(1, 7), b = sequence_of(2, 15);
  scheduler.add(&a);
  scheduler.add(&b);
  Scheduler::Step step = scheduler.next();
  EXPECT_EQ(items_of(step), (std::vector<Counted>{{1, 0, 7}, {2, 0, 3}}));
  EXPECT_TRUE(step.items[0].completes());
  EXPECT_FALSE(step.items[1].completes());
  scheduler.advance(step);
  a.token_ids.push_back(5);
  step = scheduler.next();
  EXPECT_EQ(items_of(step), (std::vector<Counted>{{1, 7, 1}, {2, 3, 10}}));
  scheduler.advance(step);
  a.token_ids.push_back(5);
  step = scheduler.next();
  EXPECT_EQ(items_of(step), (std::vector<Counted>{{1, 8, 1}, {2, 13, 2}}));
  scheduler.advance(step);
  scheduler.remove(&a);
  scheduler.remove(&b);
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(pool.num_free() + pool.num_idle(), 100);
}

TEST(Scheduler, AdmitsInOrderAsPagesAndPlacesAllow) {
  PagePool pool(4);
  FakeExecutor executor({});
  Scheduler scheduler({.max_running = 2, .prefill_tokens = 100, .page_size = 4}, pool, executor);
  Sequence a = sequence_of(1, 8), b = sequence_of(2, 8), c = sequence_of(3, 1);
  for (Sequence* sequence : {&a, &b, &c}) scheduler.add(sequence);
  // b would need the last two pages and leave none to grow into; c does not overtake it.
  EXPECT_EQ(items_of(scheduler.next()), (std::vector<Counted>{{1, 0, 8}}));
  EXPECT_EQ(scheduler.num_waiting(), 2);
  scheduler.remove(&a);
  EXPECT_EQ(items_of(scheduler.next()), (std::vector<Counted>{{3, 0, 1}, {2, 0, 8}}));
}

TEST(Scheduler, PreemptsTheYoungestWhenFull) {
  PagePool pool(5);
  FakeExecutor executor({});
  Scheduler scheduler({.max_running = 8, .prefill_tokens = 100, .page_size = 2}, pool, executor);
  Sequence a = sequence_of(1, 3), b = sequence_of(2, 3);
  scheduler.add(&a);
  scheduler.add(&b);
  scheduler.advance(scheduler.next());
  EXPECT_EQ(scheduler.num_running(), 2);
  a.token_ids.insert(a.token_ids.end(), {1});
  b.token_ids.insert(b.token_ids.end(), {1});
  scheduler.advance(scheduler.next());
  a.token_ids.push_back(1);  // takes the last page
  b.token_ids.push_back(1);  // finds none
  const Scheduler::Step step = scheduler.next();
  ASSERT_EQ(step.preempted, std::vector<Sequence*>{&b});
  EXPECT_EQ(items_of(step), (std::vector<Counted>{{1, 4, 1}}));
  EXPECT_EQ(b.computed, 0);
  EXPECT_TRUE(b.pages.empty());
  scheduler.advance(step);
  scheduler.remove(&a);
  // What it had computed is still there, since nobody wanted its pages.
  EXPECT_EQ(items_of(scheduler.next()), (std::vector<Counted>{{2, 4, 1}}));
}

/// A scheduler over 4 tokens a page, run until all prompts given so far are computed.
class Prefixes : public testing::Test {
 protected:
  Sequence sequence(std::vector<TokenId> ids) {
    Sequence sequence;
    sequence.id = ++last_id_;
    sequence.token_ids = std::move(ids);
    return sequence;
  }

  /// Where the computation of a sequence begins; it is then computed, and removed.
  int64_t begin_of(Sequence sequence) {
    scheduler_.add(&sequence);
    const Scheduler::Step step = scheduler_.next();
    EXPECT_EQ(step.items.size(), 1u);
    scheduler_.advance(step);
    const int64_t begin = step.items.at(0).begin;
    EXPECT_EQ(sequence.reused, begin);
    scheduler_.remove(&sequence);
    EXPECT_EQ(pool_.num_free() + pool_.num_idle(), pool_.num_pages());
    return begin;
  }

  static std::vector<TokenId> ids(int64_t length, TokenId first = 0) {
    std::vector<TokenId> ids(static_cast<size_t>(length));
    std::iota(ids.begin(), ids.end(), first);
    return ids;
  }

  PagePool pool_{40};
  FakeExecutor executor_{{}};
  Scheduler scheduler_{{.max_running = 8, .prefill_tokens = 1000, .page_size = 4}, pool_, executor_};
  lm::RequestId last_id_ = 0;
};

TEST_F(Prefixes, ASequenceBeginsBehindFullPagesOfTheSameTokens) {
  EXPECT_EQ(begin_of(sequence(ids(10))), 0);
  EXPECT_EQ(begin_of(sequence(ids(10))), 8);
  EXPECT_EQ(begin_of(sequence(ids(9))), 8);
  EXPECT_EQ(begin_of(sequence(ids(8))), 4) << "its last token must be computed";
  EXPECT_EQ(begin_of(sequence(ids(30))), 8);
  EXPECT_EQ(begin_of(sequence(ids(30))), 28);
  std::vector<TokenId> other = ids(30);
  other[6] = 99;
  EXPECT_EQ(begin_of(sequence(other)), 4);
  other = ids(30);
  other[0] = 99;
  EXPECT_EQ(begin_of(sequence(other)), 0) << "later pages count only behind the same earlier ones";
}

TEST_F(Prefixes, AreNeverSharedBetweenBaseAdaptersScalesOrSpans) {
  const auto a = std::make_shared<FakeAdapter>(), b = std::make_shared<FakeAdapter>();
  const auto with = [&](std::shared_ptr<const ServedAdapter> adapter, double scale, TokenSpans spans) {
    Sequence s = sequence(ids(17));
    s.adapter = std::move(adapter);
    s.scale = scale;
    s.system_spans = std::move(spans);
    return begin_of(s);
  };
  EXPECT_EQ(with(nullptr, 1.0, {{2, 6}}), 0);
  EXPECT_EQ(with(nullptr, 1.0, {{3, 9}}), 16) << "spans do not matter to the base";
  EXPECT_EQ(with(a, 1.0, {{2, 6}}), 0);
  EXPECT_EQ(with(a, 1.0, {{2, 6}}), 16);
  EXPECT_EQ(with(b, 1.0, {{2, 6}}), 0);
  EXPECT_EQ(with(a, 0.5, {{2, 6}}), 0);
  EXPECT_EQ(with(a, 0.0, {{2, 6}}), 16) << "strength 0 is the base";
  EXPECT_EQ(with(a, 1.0, {{2, 7}}), 4) << "the spans are the same up to there";
  EXPECT_EQ(with(a, 1.0, {{2, 6}, {9, 10}}), 8);
  EXPECT_EQ(with(nullptr, 1.0, {}), 16);
}

TEST_F(Prefixes, AFailedResumeBeginsEarlier) {
  PagePool pool(40);
  FakeExecutor executor({.most_resumed = 6});
  Scheduler scheduler({.page_size = 4}, pool, executor);
  Sequence a = sequence(ids(20)), b = sequence(ids(20));
  scheduler.add(&a);
  scheduler.advance(scheduler.next());
  scheduler.add(&b);
  const Scheduler::Step step = scheduler.next();
  EXPECT_EQ(items_of(step).back(), (Counted{b.id, 4, 16}));
  EXPECT_EQ(a.pages[0], b.pages[0]);
  EXPECT_NE(a.pages[1], b.pages[1]);
  scheduler.advance(step);
  EXPECT_EQ(a.pages[1], b.pages[1]) << "computed twice, kept once";
  scheduler.remove(&a);
  scheduler.remove(&b);
  EXPECT_EQ(pool.num_idle(), 5);
  EXPECT_EQ(pool.num_free(), 35);
}

TEST_F(Prefixes, TheOneUsedLongestAgoMakesRoom) {
  for (const TokenId first : {100, 200, 300}) EXPECT_EQ(begin_of(sequence(ids(41, first))), 0);
  EXPECT_EQ(pool_.num_free(), 10);
  EXPECT_EQ(begin_of(sequence(ids(41, 100))), 40);
  EXPECT_EQ(begin_of(sequence(ids(61, 400))), 0) << "takes six pages from the second";
  EXPECT_EQ(begin_of(sequence(ids(41, 300))), 40);
  EXPECT_EQ(begin_of(sequence(ids(41, 100))), 40);
  EXPECT_EQ(begin_of(sequence(ids(41, 200))), 16) << "the end of a prefix goes first";
}

TEST_F(Prefixes, APromptWaitsForOneThatBeginsTheSame) {
  std::vector<TokenId> tail = ids(100);
  tail[90] = 500;
  Sequence a = sequence(ids(100)), b = sequence(tail), c = sequence(ids(9));
  PagePool pool(100);
  Scheduler scheduler({.max_running = 8, .prefill_tokens = 1000, .page_size = 4}, pool, executor_);
  for (Sequence* s : {&a, &b, &c}) scheduler.add(s);
  Scheduler::Step step = scheduler.next();
  EXPECT_EQ(items_of(step), (std::vector<Counted>{{a.id, 0, 100}, {c.id, 0, 9}}))
      << "9 tokens are not worth it";
  scheduler.advance(step);
  for (Sequence* s : {&a, &c}) s->token_ids.push_back(1);
  step = scheduler.next();
  EXPECT_EQ(items_of(step), (std::vector<Counted>{{a.id, 100, 1}, {c.id, 9, 1}, {b.id, 88, 12}}));
  scheduler.advance(step);
  for (Sequence* s : {&a, &b, &c}) scheduler.remove(s);
}

TEST_F(Prefixes, AWaitingPromptTakesOverEveryChunkOfTheCommonPrefix) {
  std::vector<TokenId> tail = ids(200);
  tail[190] = 500;
  Sequence a = sequence(ids(200)), b = sequence(tail);
  PagePool pool(150);
  Scheduler scheduler({.max_running = 8, .prefill_tokens = 100, .page_size = 4}, pool, executor_);
  for (Sequence* s : {&a, &b}) scheduler.add(s);
  for (const int64_t begin : {0, 100}) {
    const Scheduler::Step step = scheduler.next();
    EXPECT_EQ(items_of(step), (std::vector<Counted>{{a.id, begin, 100}}));
    scheduler.advance(step);
  }
  a.token_ids.push_back(1);
  const Scheduler::Step step = scheduler.next();
  EXPECT_EQ(items_of(step), (std::vector<Counted>{{a.id, 200, 1}, {b.id, 188, 12}}));
  EXPECT_EQ(b.reused, 188);
  scheduler.advance(step);
  for (Sequence* s : {&a, &b}) scheduler.remove(s);
}

}  // namespace
}  // namespace calyrex::infer
