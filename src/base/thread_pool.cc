#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <system_error>

#include "base/env.h"
#include "base/error.h"

namespace spyre::base {
namespace {

constexpr int most_threads = 1024;
constexpr auto burst = std::chrono::milliseconds(5);

thread_local bool inside = false;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

using Clock = std::chrono::steady_clock;

constexpr int most_parts = 16;  // further threads share them

}  // namespace

/// One call of for_each, on its caller's stack.
struct ThreadPool::Loop {
  /// Tasks begin..end-1 that nobody has taken yet, in one word.
  class alignas(128) Part {
   public:
    void set(int begin, int end) { tasks_.store(pack(begin, end), std::memory_order_relaxed); }
    int left() const {
      const uint64_t tasks = tasks_.load(std::memory_order_relaxed);
      return std::max(end(tasks) - begin(tasks), 0);
    }
    /// The first task, or the last one; -1 when there is none.
    int take(bool last) {
      uint64_t tasks = tasks_.load(std::memory_order_relaxed);
      for (;;) {
        const int first = begin(tasks), after = end(tasks);
        if (first >= after) return -1;
        const uint64_t rest = last ? pack(first, after - 1) : pack(first + 1, after);
        if (tasks_.compare_exchange_weak(tasks, rest, std::memory_order_relaxed)) return last ? after - 1 : first;
      }
    }

   private:
    static uint64_t pack(int begin, int end) {
      return static_cast<uint64_t>(static_cast<uint32_t>(begin)) << 32 | static_cast<uint32_t>(end);
    }
    static int begin(uint64_t tasks) { return static_cast<int>(tasks >> 32); }
    static int end(uint64_t tasks) { return static_cast<int>(tasks & UINT32_MAX); }

    std::atomic<uint64_t> tasks_{0};
  };

  FunctionRef<void(int)> task;
  int parts;               // one a thread
  std::atomic<int> seats;  // workers that may still join
  std::mutex error_mutex;
  int error_index = 0;
  std::exception_ptr error;
  Part part[most_parts];

  Loop(FunctionRef<void(int)> what, int n, int helpers)
      : task(what), parts(std::min(helpers + 1, most_parts)), seats(helpers) {
    for (int p = 0; p < parts; ++p)
      part[p].set(static_cast<int>(int64_t{n} * p / parts), static_cast<int>(int64_t{n} * (p + 1) / parts));
  }

  /// The next task of the own part, or the last one of the part that has most left.
  int next(int own) {
    if (const int i = part[own].take(false); i >= 0) return i;
    for (;;) {
      Part* const most =
          std::max_element(part, part + parts, [](const Part& a, const Part& b) { return a.left() < b.left(); });
      if (most->left() == 0) return -1;
      if (const int i = most->take(true); i >= 0) return i;
    }
  }

  /// `seat`: 0 the caller, others the workers.
  void run(int seat) {
    const bool outer = inside;
    inside = true;
    for (int i; (i = next(seat % parts)) >= 0;) {
      try {
        task(i);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error || i < error_index) {
          error = std::current_exception();
          error_index = i;
        }
      }
    }
    inside = outer;
  }
};

ThreadPool& ThreadPool::shared() {
  static ThreadPool* const pool = new ThreadPool(static_cast<int>(env_int(
      "SPYRE_THREADS", std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, most_threads), 1, most_threads)));
  return *pool;
}

ThreadPool::ThreadPool(int threads) : limit_(threads) {
  if (threads < 1 || threads > most_threads)
    fail(Fault::user, "a thread pool of {} threads: expected 1 to {}", threads, most_threads);
}

ThreadPool::~ThreadPool() {
  stopping_.store(true);
  bell_.fetch_add(1);
  bell_.notify_all();
  for (std::thread& t : workers_) t.join();
}

bool ThreadPool::inside_task() { return inside; }

void ThreadPool::start_workers(int count) {
  while (static_cast<int>(workers_.size()) < count) {
    try {
      workers_.emplace_back([this, seen = bell_.load()] { worker(seen); });
    } catch (const std::system_error& e) {
      fail(Fault::system, "cannot start worker thread {} of {} ({}): lower SPYRE_THREADS", workers_.size() + 1, count,
           e.what());
    }
  }
}

void ThreadPool::worker(uint32_t seen) {
  auto last = Clock::now();
  for (;;) {
    for (int spin = 1; bell_.load(std::memory_order_acquire) == seen; ++spin) {
      pause();
      if (spin % 64 == 0 && Clock::now() - last > burst) {
        sleepers_.fetch_add(1);
        bell_.wait(seen);
        sleepers_.fetch_sub(1);
        break;
      }
    }
    seen = bell_.load();
    if (stopping_.load()) return;
    // Announced before the pointer is read: a caller that took the loop down waits for those who may hold it.
    visitors_.fetch_add(1);
    if (Loop* loop = loop_.load()) {
      if (const int seat = loop->seats.fetch_sub(1); seat > 0) loop->run(seat);
    }
    visitors_.fetch_sub(1);
    last = Clock::now();
  }
}

void ThreadPool::for_each(int n, FunctionRef<void(int)> task) {
  if (n <= 0) return;
  const int helpers = std::min(size(), n) - 1;
  const bool alone = helpers == 0 || inside || !busy_.try_lock();
  Loop loop(task, n, alone ? 0 : helpers);
  if (alone) {
    loop.run(0);
  } else {
    const std::lock_guard lock(busy_, std::adopt_lock);
    start_workers(size() - 1);
    loop_.store(&loop);
    bell_.fetch_add(1);
    if (sleepers_.load() > 0) bell_.notify_all();
    loop.run(0);
    loop_.store(nullptr);
    // Yields now and then: on a shared machine the worker waited for may need this very core.
    for (int spin = 1; visitors_.load() > 0; ++spin) {
      pause();
      if (spin % 1024 == 0) std::this_thread::yield();
    }
  }
  if (loop.error) std::rethrow_exception(loop.error);
}

void ThreadPool::with_threads(int n, FunctionRef<void()> body) {
  if (n < 1 || n > most_threads) fail(Fault::user, "with_threads({}): expected 1 to {}", n, most_threads);
  struct Restore {
    std::atomic<int>& limit;
    int before;
    ~Restore() { limit.store(before); }
  } restore{limit_, limit_.exchange(n)};
  body();
}

}  // namespace spyre::base
