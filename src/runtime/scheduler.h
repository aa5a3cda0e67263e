// Scheduler: the worker threads of the process, and the list of streams that are ready to run.
//
// A stream is in the list, or held by one thread (a worker, or a caller that runs it itself), or neither when it is
// empty or parked; so its work is never run by two threads.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/streams.h"

namespace spyre::runtime {

class Scheduler {
 public:
  /// The one of the process, never destroyed; its threads stop at exit, after the work they are at.
  /// SPYRE_STREAM_WORKERS is the largest number of threads (1..64, default 2); each starts when a stream is ready and
  /// no worker is idle.
  static Scheduler& shared();

  void push(Stream* stream);  ///< adds a stream in State::ready
  bool take(Stream* stream);  ///< removes it again: true when no worker had it yet
  /// True when the worker of a stream of this priority should make room after the current piece of work.
  bool should_yield(int priority) const { return best_waiting_.load(std::memory_order_relaxed) <= priority; }
  /// Stops and joins the threads. Streams keep their queues, which synchronisations then run themselves.
  void stop();

 private:
  Scheduler();
  void worker();
  void update_best();

  static constexpr int none_waiting = 1000, stop_now = -1000;
  const int limit_;
  std::atomic<int> best_waiting_{none_waiting};
  std::mutex mutex_;  // all below
  std::condition_variable changed_;
  std::array<std::deque<Stream*>, lowest_priority - highest_priority + 1> ready_;
  std::vector<std::thread> threads_;
  int sleeping_ = 0, spinning_ = 0;
  bool stopping_ = false;
};

}  // namespace spyre::runtime
