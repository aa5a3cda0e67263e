#include "runtime/scheduler.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/env.h"
#include "runtime/devices.h"

namespace spyre::runtime {
namespace {

// Long enough for the next launch of a burst, short enough not to take a core from the rest of the program.
constexpr auto spin_time = std::chrono::microseconds(100);

}  // namespace

Scheduler& Scheduler::shared() {
  static Scheduler* const scheduler = [] {
    auto* made = new Scheduler;
    std::atexit([] {
      if (!in_forked_child()) shared().stop();
    });
    return made;
  }();
  return *scheduler;
}

Scheduler::Scheduler() : limit_(static_cast<int>(base::env_int("SPYRE_STREAM_WORKERS", 2, 1, 64))) {}

void Scheduler::update_best() {
  int best = none_waiting;
  for (size_t i = 0; i < ready_.size() && best == none_waiting; ++i)
    if (!ready_[i].empty()) best = highest_priority + static_cast<int>(i);
  best_waiting_.store(stopping_ ? stop_now : best, std::memory_order_relaxed);
}

void Scheduler::push(Stream* stream) {
  std::lock_guard lock(mutex_);
  ready_[stream->priority() - highest_priority].push_back(stream);
  update_best();
  if (stopping_) return;
  if (spinning_ > 0) return;
  if (sleeping_ > 0) return changed_.notify_one();
  if (static_cast<int>(threads_.size()) < limit_) threads_.emplace_back([this] { worker(); });
}

bool Scheduler::take(Stream* stream) {
  std::lock_guard lock(mutex_);
  auto& list = ready_[stream->priority() - highest_priority];
  const auto place = std::find(list.begin(), list.end(), stream);
  if (place == list.end()) return false;
  list.erase(place);
  update_best();
  return true;
}

void Scheduler::worker() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto list = std::find_if(ready_.begin(), ready_.end(), [](const auto& l) { return !l.empty(); });
    if (list != ready_.end()) {
      Stream* const stream = list->front();
      list->pop_front();
      update_best();
      lock.unlock();
      stream->run_some(UINT64_MAX);
      lock.lock();
      continue;
    }
    ++spinning_;
    lock.unlock();
    const auto end = std::chrono::steady_clock::now() + spin_time;
    while (best_waiting_.load(std::memory_order_relaxed) == none_waiting && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    lock.lock();
    --spinning_;
    if (best_waiting_.load(std::memory_order_relaxed) != none_waiting) continue;
    ++sleeping_;
    changed_.wait(lock, [&] { return best_waiting_.load(std::memory_order_relaxed) != none_waiting; });
    --sleeping_;
  }
}

void Scheduler::stop() {
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    update_best();
    threads.swap(threads_);
  }
  changed_.notify_all();
  for (auto& thread : threads) thread.join();
}

}  // namespace spyre::runtime
