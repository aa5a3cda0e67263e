#include "runtime/streams.h"

#include <chrono>

#include "base/error.h"
#include "runtime/devices.h"
#include "runtime/scheduler.h"
#include "runtime/trace.h"

namespace spyre::runtime {
namespace {

// Waking a sleeping worker takes 25 to 130 us on the machines measured: shorter work is done sooner by the caller.
constexpr int64_t inline_limit_ns = 60'000;

}  // namespace

// ------------------------------------------------------------------------------------------------------------- signals

void Signal::reach(int64_t modelled_ps, FailurePtr failure) {
  std::vector<Stream*> waiters;
  {
    std::lock_guard lock(mutex_);
    modelled_ps_ = modelled_ps;
    host_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
                   .count();
    failure_ = std::move(failure);
    reached_.store(true, std::memory_order_release);
    waiters.swap(waiters_);
    changed_.notify_all();
  }
  for (Stream* waiter : waiters) waiter->resume();
}

bool Signal::park(Stream* waiter) {
  std::lock_guard lock(mutex_);
  if (reached()) return false;
  waiters_.push_back(waiter);
  return true;
}

void Signal::wait() const {
  if (reached()) return;
  // Running the stream on this thread saves the wake-up of a worker, and works after the workers have stopped.
  stream_->help(*this);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached(); });
}

// ------------------------------------------------------------------------------------------------------------- streams

Stream::Stream(Device& device, int64_t id, int priority) : device_(device), id_(id), priority_(priority) {}

Stream::~Stream() = default;

bool Stream::begin_inline(const WorkInfo& info) {
  check_process();
  std::unique_lock lock(mutex_);
  throw_pending(lock);
  if (state_ != State::empty || (info.host_ns > inline_limit_ns && !info.blocking)) return false;
  state_ = State::running;
  ++enqueued_;
  return true;
}

void Stream::run_inline(const WorkInfo& info, base::FunctionRef<int64_t()> work) {
  struct Finish {
    Stream& stream;
    ~Finish() { stream.finish_inline(); }
  } finish{*this};
  execute(info, work);
}

void Stream::finish_inline() {
  std::lock_guard lock(mutex_);
  finish_entry();
  if (queue_.empty()) {
    state_ = State::empty;
  } else {
    state_ = State::ready;
    Scheduler::shared().push(this);
  }
}

void Stream::finish_entry() {
  ++done_;
  if (waiters_ > 0) changed_.notify_all();
}

void Stream::execute(const WorkInfo& info, base::FunctionRef<int64_t()> work) {
  const int64_t start = modelled_ps();
  const int64_t duration = work();
  modelled_ps_.store(start + duration, std::memory_order_release);
  if (tracing()) trace_span(*this, info.name, info.kind, start, duration);
}

void Stream::enqueue(const WorkInfo& info, std::unique_ptr<ItemBase> work) {
  std::unique_lock lock(mutex_);
  if (queue_.size() >= queue_limit) wait_for(lock, enqueued_ - queue_limit / 2);
  throw_pending(lock);
  push(Entry{info, std::move(work), nullptr, nullptr, nullptr, false});
}

void Stream::push(Entry entry) {
  queue_.push_back(std::move(entry));
  ++enqueued_;
  if (state_ != State::empty) return;
  state_ = State::ready;
  Scheduler::shared().push(this);
}

std::shared_ptr<Signal> Stream::record() {
  std::shared_ptr<Signal> signal(new Signal(this));
  if (in_forked_child()) {
    signal->reached_.store(true, std::memory_order_release);
    return signal;
  }
  std::unique_lock lock(mutex_);
  if (state_ == State::empty) {
    FailurePtr failure = failure_;
    lock.unlock();
    signal->reach(modelled_ps(), std::move(failure));
  } else {
    push(Entry{{}, nullptr, nullptr, signal, nullptr, false});
  }
  return signal;
}

void Stream::absorb(const Signal& signal, bool forgiven) {
  if (signal.modelled_ps() > modelled_ps()) modelled_ps_.store(signal.modelled_ps(), std::memory_order_release);
  if (signal.failure() && !forgiven && !failure_) failure_ = signal.failure();
}

void Stream::wait(std::shared_ptr<Signal> signal) {
  check_process();
  std::unique_lock lock(mutex_);
  throw_pending(lock);
  if (!signal || signal->stream_ == this) return;
  const bool reached = signal->reached();
  const bool forgiven = reached && signal->failure() && signal->failure()->reported.load();
  if (reached && state_ == State::empty) return absorb(*signal, forgiven);
  push(Entry{{}, nullptr, std::move(signal), nullptr, nullptr, forgiven});
}

// Does the first entry of the queue. False: parked on a signal.
bool Stream::step(std::unique_lock<std::mutex>& lock) {
  if (const auto& signal = queue_.front().wait) {
    if (!signal->reached()) {
      state_ = State::parked;
      if (signal->park(this)) return false;
      state_ = State::running;
    }
    absorb(*signal, queue_.front().forgiven);
    queue_.pop_front();
    finish_entry();
    return true;
  }
  Entry entry = std::move(queue_.front());
  queue_.pop_front();
  const FailurePtr failure = entry.failure ? entry.failure : failure_;
  lock.unlock();
  FailurePtr failed;
  if (entry.reach) {
    entry.reach->reach(modelled_ps(), failure);
  } else if (entry.work && !failure) {
    try {
      execute(entry.info, [&] { return entry.work->run(); });
    } catch (...) {
      failed = std::make_shared<Failure>();
      failed->error = std::current_exception();
    }
  }
  entry = Entry{};  // what it holds may take locks when it goes
  lock.lock();
  if (failed && !failure_) failure_ = std::move(failed);
  finish_entry();
  return true;
}

void Stream::run_some(uint64_t until) {
  Scheduler& scheduler = Scheduler::shared();
  std::unique_lock lock(mutex_);
  state_ = State::running;
  while (!queue_.empty()) {
    if (!step(lock)) {
      if (waiters_ > 0) changed_.notify_all();
      return;
    }
    if (!queue_.empty() && (until == UINT64_MAX ? scheduler.should_yield(priority_) : done_ >= until)) {
      state_ = State::ready;
      return scheduler.push(this);
    }
  }
  state_ = State::empty;
  if (waiters_ > 0) changed_.notify_all();
}

void Stream::resume() {
  std::lock_guard lock(mutex_);
  state_ = State::ready;
  Scheduler::shared().push(this);
  if (waiters_ > 0) changed_.notify_all();
}

void Stream::wait_for(std::unique_lock<std::mutex>& lock, uint64_t target) {
  while (done_ < target) {
    if (state_ == State::ready && Scheduler::shared().take(this)) {
      lock.unlock();
      run_some(target);
      lock.lock();
      continue;
    }
    ++waiters_;
    changed_.wait(lock);
    --waiters_;
  }
}

void Stream::help(const Signal& signal) {
  std::unique_lock lock(mutex_);
  while (!signal.reached() && state_ == State::ready && Scheduler::shared().take(this)) {
    const uint64_t next = done_ + 1;
    lock.unlock();
    run_some(next);
    lock.lock();
  }
}

void Stream::drain() {
  if (in_forked_child()) return;
  std::unique_lock lock(mutex_);
  wait_for(lock, enqueued_);
}

bool Stream::idle() const {
  std::lock_guard lock(mutex_);
  return done_ == enqueued_;
}

bool Stream::query() {
  check_process();
  std::unique_lock lock(mutex_);
  throw_pending(lock);
  return done_ == enqueued_;
}

void Stream::synchronize() {
  check_process();
  std::unique_lock lock(mutex_);
  wait_for(lock, enqueued_);
  throw_pending(lock);
}

// Work behind a failure stays dropped after the failure was reported, and signals behind it keep telling of it.
FailurePtr Stream::take_failure(std::vector<std::unique_ptr<ItemBase>>& dropped) {
  FailurePtr failure = std::exchange(failure_, nullptr);
  if (!failure) return nullptr;
  failure->reported.store(true);
  for (Entry& entry : queue_) {
    if (entry.work) dropped.push_back(std::move(entry.work));
    if (entry.reach && !entry.failure) entry.failure = failure;
  }
  return failure;
}

void Stream::throw_pending(std::unique_lock<std::mutex>& lock) {
  if (!failure_) return;
  std::vector<std::unique_ptr<ItemBase>> dropped;
  const FailurePtr failure = take_failure(dropped);
  lock.unlock();
  dropped.clear();
  std::rethrow_exception(failure->error);
}

std::exception_ptr Stream::take_error() {
  std::vector<std::unique_ptr<ItemBase>> dropped;
  std::lock_guard lock(mutex_);
  const FailurePtr failure = take_failure(dropped);
  return failure ? failure->error : nullptr;
}

void Stream::clear(const FailurePtr& failure) {
  std::vector<std::unique_ptr<ItemBase>> dropped;
  std::lock_guard lock(mutex_);
  if (failure_ == failure) take_failure(dropped);
}

}  // namespace spyre::runtime
