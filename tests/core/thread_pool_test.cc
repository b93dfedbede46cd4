#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <vector>

namespace elastiq {
namespace {

TEST(ThreadPoolTest, EveryIndexRunsOnceAtAnyThreadCount) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const std::size_t n : {0u, 1u, 2u, 7u, 1000u}) {
      std::vector<std::atomic<int>> runs(n);
      pool.run(n, [&](std::size_t i) { runs[i].fetch_add(1); });
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(runs[i].load(), 1) << threads << " " << i;
    }
  }
}

TEST(ThreadPoolTest, ManyShortLoopsDoNotLoseWork) {
  ThreadPool pool(4);
  std::vector<std::uint64_t> values(16, 0);
  for (std::uint64_t loop = 0; loop < 5000; ++loop) {
    pool.run(values.size(), [&](std::size_t i) { values[i] += i; });
  }
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], 5000 * i);
}

TEST(ThreadPoolTest, IterationsRunAtTheSameTime) {
  // Each iteration waits for the other: one thread alone would wait for ever.
  ThreadPool pool(2);
  std::mutex mutex;
  std::condition_variable both;
  int here = 0;
  bool met = true;
  pool.run(2, [&](std::size_t) {
    std::unique_lock lock(mutex);
    ++here;
    both.notify_all();
    met = both.wait_for(lock, std::chrono::seconds(20), [&] { return here == 2; }) && met;
  });
  EXPECT_TRUE(met);
}

TEST(ThreadPoolTest, CInterface) {
  ThreadPool pool(2);
  std::vector<std::uint32_t> squares(100);
  ThreadPool::c_run(
      &pool, 100,
      [](void* arg, std::uint32_t i) {
        (*static_cast<std::vector<std::uint32_t>*>(arg))[i] = i * i;
      },
      &squares);
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(squares[i], i * i);
}

}  // namespace
}  // namespace elastiq
