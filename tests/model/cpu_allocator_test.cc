#include "calyrex/model/cpu_allocator.h"

#include <fstream>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace calyrex::model {
namespace {

TEST(CpuAllocator, FreedBlocksOfAClassAreUsedAgain) {
  install_caching_cpu_allocator();
  const void* first = at::empty({1'000'000}, at::kFloat).const_data_ptr();
  const void* second = at::empty({990'000}, at::kFloat).const_data_ptr();  // the same class
  EXPECT_EQ(first, second);
  EXPECT_NE(first, at::empty({2'000'000}, at::kFloat).const_data_ptr());
}

TEST(CpuAllocator, BlocksAreAlignedAndKeepTheirValues) {
  install_caching_cpu_allocator();
  std::vector<at::Tensor> kept;
  for (int64_t size = 1; size < 3'000'000; size = size * 3 + 1) {
    kept.push_back(at::full({size}, static_cast<double>(size), at::kFloat));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(kept.back().const_data_ptr()) % 64, 0u);
  }
  for (const at::Tensor& tensor : kept) {
    EXPECT_TRUE((tensor == static_cast<double>(tensor.numel())).all().item<bool>());
  }
}

TEST(CpuAllocator, ThreadsShareIt) {
  install_caching_cpu_allocator();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t round = 0; round < 200; ++round) {
        const at::Tensor tensor = at::full({30'000 + round * 100}, thread, at::kFloat);
        if (!(tensor == thread).all().item<bool>()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

/// Of this process, in bytes.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0;
  int64_t resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(CpuAllocator, UnusedMemoryGoesBackToTheSystem) {
  install_caching_cpu_allocator();
  const void* kept = nullptr;
  {
    const at::Tensor tensor = at::ones({64, 1 << 20}, at::kFloat);  // 256 MiB
    kept = tensor.const_data_ptr();
  }
  const int64_t before = resident_bytes();
  EXPECT_EQ(at::empty({64, 1 << 20}, at::kFloat).const_data_ptr(), kept) << "it was not kept for reuse";
  release_unused_memory();
  EXPECT_LT(resident_bytes(), before - (int64_t{240} << 20));
  EXPECT_TRUE((at::ones({1'000'000}, at::kFloat) == 1.0).all().item<bool>());
}

TEST(CpuAllocator, LittleIsKeptBesideMuchThatIsInUse) {
  install_caching_cpu_allocator();
  release_unused_memory();
  const at::Tensor much = at::empty({int64_t{400} << 20}, at::kFloat);  // 1.6 GiB, never touched
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 10; ++i) tensors.push_back(at::ones({16, 1 << 20}, at::kFloat));  // 64 MiB each
  const int64_t before = resident_bytes();
  tensors.clear();
  EXPECT_LT(resident_bytes(), before - (int64_t{360} << 20));
}

}  // namespace
}  // namespace calyrex::model
