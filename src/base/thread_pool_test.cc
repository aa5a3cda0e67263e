#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"

namespace spyre::base {
namespace {

TEST(ThreadPool, EveryTaskRunsOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int n : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(n));
      pool.for_each(n, [&](int i) { runs[static_cast<size_t>(i)]++; });
      for (auto& r : runs) EXPECT_EQ(r.load(), 1) << threads << " " << n;
    }
  }
}

TEST(ThreadPool, ManyShortLoops) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  for (int loop = 0; loop < 20000; ++loop) pool.for_each(4, [&](int i) { sum += i; });
  EXPECT_EQ(sum.load(), 20000 * 6);
}

TEST(ThreadPool, SleepingWorkersWake) {
  ThreadPool pool(2);
  for (int loop = 0; loop < 3; ++loop) {
    std::atomic<int> both{0};
    pool.for_each(2, [&](int) {  // ends only if two threads are inside
      both++;
      const auto start = std::chrono::steady_clock::now();
      while (both.load() < 2 && std::chrono::steady_clock::now() - start < std::chrono::seconds(10))
        std::this_thread::yield();
    });
    EXPECT_EQ(both.load(), 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than the burst
  }
}

TEST(ThreadPool, NestedLoopsRunInline) {
  ThreadPool pool(4);
  std::atomic<int> inner{0};
  pool.for_each(8, [&](int) {
    EXPECT_TRUE(ThreadPool::inside_task());
    const auto self = std::this_thread::get_id();
    pool.for_each(5, [&](int) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      inner++;
    });
  });
  EXPECT_EQ(inner.load(), 40);
  EXPECT_FALSE(ThreadPool::inside_task());
}

TEST(ThreadPool, ConcurrentCallersAllFinish) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int loop = 0; loop < 500; ++loop) pool.for_each(10, [&](int i) { sum += i; });
    });
  for (auto& c : callers) c.join();
  EXPECT_EQ(sum.load(), 4 * 500 * 45);
}

TEST(ThreadPool, TheLowestFailingTaskIsReportedAndTheOthersStillRun) {
  for (int threads : {1, 4}) {
    ThreadPool pool(threads);
    for (int loop = 0; loop < 50; ++loop) {
      std::atomic<int> ran{0};
      try {
        pool.for_each(100, [&](int i) {
          ran++;
          if (i % 10 == 7) throw std::runtime_error(std::to_string(i));
        });
        FAIL();
      } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "7");
      }
      EXPECT_EQ(ran.load(), 100);
    }
  }
}

TEST(ThreadPool, WithThreadsLimitsAndRestores) {
  ThreadPool pool(4);
  pool.with_threads(1, [&] {
    EXPECT_EQ(pool.size(), 1);
    const auto self = std::this_thread::get_id();
    pool.for_each(20, [&](int) { EXPECT_EQ(std::this_thread::get_id(), self); });
  });
  EXPECT_EQ(pool.size(), 4);
  pool.with_threads(6, [&] { EXPECT_EQ(pool.size(), 6); });
  EXPECT_THROW(pool.with_threads(2, [] { throw std::runtime_error("x"); }), std::runtime_error);
  EXPECT_EQ(pool.size(), 4);
  EXPECT_THROW(pool.with_threads(0, [] {}), Error);
  EXPECT_THROW(ThreadPool(0), Error);
}

TEST(ThreadPool, LoopsWorkInAForkedChild) {
  ThreadPool& pool = ThreadPool::shared();
  pool.with_threads(3, [&] {
    pool.for_each(10, [](int) {});
    const pid_t child = fork();
    if (child == 0) {
      std::atomic<int> sum{0};
      pool.for_each(10, [&](int i) { sum += i; });
      _exit(sum.load() == 45 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  });
}

}  // namespace
}  // namespace spyre::base
