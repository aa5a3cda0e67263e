// The one process-wide pool of worker threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace spyre::base {

/// Runs the tasks of one parallel loop on the caller and size() - 1 workers.
///
/// Each thread takes the tasks of its own part of the loop, in index order, and then the last ones of the part that has
/// most left: neighbours, which often share data, run on one thread, and a loop like the last one finds its data in the
/// same caches. On the caller alone they run in index order. Waking a sleeping thread costs tens of
/// microseconds, handing work to a spinning one well under one: workers spin for 5 ms after their last loop, then
/// sleep.
class ThreadPool {
 public:
  /// The pool of the process: SPYRE_THREADS threads (1..1024), or as many as the machine has; throws
  /// Error(configuration) for a bad SPYRE_THREADS. Workers start with the first loop that can use them. The pool is
  /// never destroyed, so that loops of static destructors still work; in a forked child, which has no workers, loops
  /// run on the caller.
  static ThreadPool& shared();

  /// A pool of its own with `threads` threads, the caller included; throws Error(user) below 1. For tests.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Threads a loop can use, the caller included.
  int size() const { return limit_.load(std::memory_order_relaxed); }

  /// Calls task(i) once for each i in 0..n-1 and returns when all are done. Inside a task, and while another thread's
  /// loop has the workers, all run on the caller. If tasks throw, the others still run, and the exception of the lowest
  /// index is rethrown. Throws Error(system) if a worker cannot be started.
  void for_each(int n, FunctionRef<void(int)> task);

  /// Calls body while loops of this pool use at most n threads; throws Error(user) below 1. More than the pool has, up
  /// to 1024, starts more workers. For tests and benchmarks: loops running at the same time see it too.
  void with_threads(int n, FunctionRef<void()> body);

  /// True on a thread that is inside a task of any pool.
  static bool inside_task();

 private:
  struct Loop;
  void start_workers(int count);
  void worker(uint32_t seen);

  std::atomic<int> limit_;
  std::mutex busy_;  // held by the caller whose loop has the workers
  std::vector<std::thread> workers_;
  std::atomic<Loop*> loop_{nullptr};
  std::atomic<int> visitors_{0};   // workers that may hold a pointer to the loop
  std::atomic<uint32_t> bell_{0};  // changes with every loop; sleepers wait on it
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
};

}  // namespace spyre::base
