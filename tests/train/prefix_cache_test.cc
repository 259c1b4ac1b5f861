// The prefix cache by itself: what it keeps, its budget, and files that a killed process or a bad disk left.
#include "calyrex/train/prefix_cache.h"

#include <fstream>

#include <gtest/gtest.h>

#include "calyrex/base/file.h"
#include "tests/weights/test_files.h"

namespace calyrex::train {
namespace {

constexpr int64_t kWidth = 4;

PrefixCache::Options options_in(const test::TempFolder& folder) {
  return {.folder = folder.path(), .layer = 3, .width = kWidth, .identity = "model", .budget_bytes = 1 << 20};
}

std::vector<std::byte> states_of(const std::vector<TokenId>& ids) {
  std::vector<std::byte> states(ids.size() * kWidth * 2);
  for (size_t i = 0; i < states.size(); ++i)
    states[i] = static_cast<std::byte>(ids[0] + static_cast<TokenId>(i));
  return states;
}

bool holds(PrefixCache& cache, const std::vector<TokenId>& ids) {
  std::vector<std::byte> states(ids.size() * kWidth * 2);
  return cache.load(ids, states) && states == states_of(ids);
}

std::filesystem::path only_file(const test::TempFolder& folder) {
  return std::filesystem::directory_iterator(folder.path())->path();
}

TEST(PrefixCache, KeepsStatesByTokensAcrossProcesses) {
  const test::TempFolder folder;
  {
    PrefixCache cache(options_in(folder));
    EXPECT_FALSE(holds(cache, {1, 2}));
    cache.store({1, 2}, states_of({1, 2}));
    cache.store({7}, states_of({7}));
    EXPECT_TRUE(holds(cache, {1, 2}));
    EXPECT_FALSE(holds(cache, {2, 1}));
    EXPECT_EQ(cache.counts().hits, 1);
    EXPECT_EQ(cache.counts().misses, 2);
  }
  PrefixCache again(options_in(folder));
  EXPECT_TRUE(holds(again, {1, 2}));
  EXPECT_TRUE(holds(again, {7}));
}

TEST(PrefixCache, AnotherLayerOrBackboneHasItsOwnFile) {
  const test::TempFolder folder;
  PrefixCache cache(options_in(folder));
  cache.store({1}, states_of({1}));
  for (const auto change : {0, 1}) {
    PrefixCache::Options options = options_in(folder);
    if (change == 0) options.layer = 4;
    if (change == 1) options.identity = "other";
    PrefixCache other(options);
    EXPECT_FALSE(holds(other, {1}));
  }
}

TEST(PrefixCache, StopsAtItsBudget) {
  const test::TempFolder folder;
  PrefixCache::Options options = options_in(folder);
  options.budget_bytes = 200;
  PrefixCache cache(options);
  for (TokenId id = 0; id < 10; ++id) cache.store({id}, states_of({id}));
  EXPECT_LE(std::filesystem::file_size(only_file(folder)), 200u);
  EXPECT_EQ(cache.counts().bytes, static_cast<int64_t>(std::filesystem::file_size(only_file(folder))));
  EXPECT_TRUE(holds(cache, {0}));
  EXPECT_FALSE(holds(cache, {9}));
}

TEST(PrefixCache, ARecordCutShortIsDroppedAndWrittenAnew) {
  const test::TempFolder folder;
  {
    PrefixCache cache(options_in(folder));
    cache.store({1}, states_of({1}));
    cache.store({2}, states_of({2}));
  }
  std::filesystem::resize_file(only_file(folder), std::filesystem::file_size(only_file(folder)) - 3);
  PrefixCache cache(options_in(folder));
  EXPECT_TRUE(holds(cache, {1}));
  EXPECT_FALSE(holds(cache, {2}));
  cache.store({2}, states_of({2}));
  EXPECT_TRUE(holds(cache, {2}));
}

TEST(PrefixCache, ABadPageCountsAsAbsent) {
  const test::TempFolder folder;
  {
    PrefixCache cache(options_in(folder));
    cache.store({1}, states_of({1}));
    cache.store({2}, states_of({2}));
  }
  std::string bytes = read_file(only_file(folder), 10000);
  bytes.back() ^= 1;
  std::ofstream(only_file(folder), std::ios::binary | std::ios::trunc) << bytes;
  PrefixCache cache(options_in(folder));
  EXPECT_TRUE(holds(cache, {1}));
  EXPECT_FALSE(holds(cache, {2}));
  cache.store({2}, states_of({2}));
  EXPECT_TRUE(holds(cache, {2}));
}

}  // namespace
}  // namespace calyrex::train
