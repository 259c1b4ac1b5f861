#include "calyrex/infer/core/scheduler.h"

#include <gtest/gtest.h>

#include "calyrex/base/error.h"

namespace calyrex::infer {
namespace {

Sequence sequence_of(lm::RequestId id, size_t length) {
  Sequence sequence;
  sequence.id = id;
  sequence.token_ids.assign(length, 1);
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

TEST(Scheduler, PrefillsInChunksBesideDecodes) {
  PagePool pool(100);
  Scheduler scheduler({.max_running = 8, .prefill_tokens = 10, .page_size = 4}, pool);
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
  EXPECT_EQ(pool.num_free(), 100);
}

TEST(Scheduler, AdmitsInOrderAsPagesAndPlacesAllow) {
  PagePool pool(4);
  Scheduler scheduler({.max_running = 2, .prefill_tokens = 100, .page_size = 4}, pool);
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
  Scheduler scheduler({.max_running = 8, .prefill_tokens = 100, .page_size = 2}, pool);
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
  EXPECT_EQ(items_of(scheduler.next()), (std::vector<Counted>{{2, 0, 5}}));
}

}  // namespace
}  // namespace calyrex::infer
