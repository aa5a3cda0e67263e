// Streams: FIFO queues of device work, and the signals and events that order them.
//
// Small work runs on the calling thread when its stream is empty; the rest is handed to a few worker threads of the
// process, which take the streams that are ready by priority (lower number first) and then by age. A stream that waits
// for a signal is parked and holds no thread, so waits between streams can't use up the workers.
//
// Modelled time. A stream has a clock in picoseconds: work moves it on by what the card would take (a launch by its
// timeline, a copy by its bytes at the description's host_transfer_gbps or memory_gbps), a wait sets it to at least the
// time of the signal. Streams of one card don't slow each other down in this model, and time on the host doesn't count.
//
// Errors. Work that fails on the calling thread throws there, and the stream stays usable. Work that fails later
// *poisons* its stream: work behind it is dropped, as is that of streams that wait for signals recorded behind it,
// until the error was reported. The first enqueue, query or synchronisation of the stream, of an event recorded behind
// it, or of the device throws the original Error; from then on the stream is usable again. Signals are reached, and
// memory is freed, also on a poisoned stream.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/function_ref.h"

namespace spyre::runtime {

class Device;
class Stream;
class Scheduler;

constexpr int highest_priority = -3;
constexpr int lowest_priority = 3;

/// The error that poisoned a stream; shared by all streams and signals that it reached.
struct Failure {
  std::exception_ptr error;
  std::atomic<bool> reported{false};
};
using FailurePtr = std::shared_ptr<Failure>;

/// A point in a stream's order. Reached when all work before it is done (or dropped). Thread-safe.
class Signal {
 public:
  bool reached() const { return reached_.load(std::memory_order_acquire); }
  /// Blocks until it is reached; throws nothing.
  void wait() const;
  /// After reached(): the stream's modelled clock (ps), the host's steady clock (ns) and the failure it came behind, or
  /// null.
  int64_t modelled_ps() const { return modelled_ps_; }
  int64_t host_ns() const { return host_ns_; }
  const FailurePtr& failure() const { return failure_; }
  /// The stream it was recorded on.
  Stream& stream() const { return *stream_; }

 private:
  friend class Stream;
  explicit Signal(Stream* stream) : stream_(stream) {}
  void reach(int64_t modelled_ps, FailurePtr failure);
  bool park(Stream* waiter);  // false when it is reached already

  Stream* stream_;
  std::atomic<bool> reached_{false};
  int64_t modelled_ps_ = 0, host_ns_ = 0;
  FailurePtr failure_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Stream*> waiters_;
};

/// What kind of work a trace shows.
enum class WorkKind : uint8_t { kernel, copy, other };

/// What the queue needs to know of a piece of work.
struct WorkInfo {
  const char* name = "work";  ///< shown in traces; must outlive the work (a literal, or owned by the closure)
  WorkKind kind = WorkKind::other;
  int64_t host_ns = 0;    ///< estimate of its time on this host: short work may run on the calling thread
  bool blocking = false;  ///< the caller waits for it anyway: run it on the calling thread, whatever it takes, if the
                          ///< stream is empty
};

/// A FIFO queue of one device. Thread-safe.
class Stream {
 public:
  Device& device() const { return device_; }
  int64_t id() const { return id_; }
  int priority() const { return priority_; }

  /// Enqueues `work`: a callable that returns the modelled picoseconds it took. It may run before this returns; then
  /// what it throws is thrown here. Throws the pending error of a poisoned stream, and then enqueues nothing. Blocks
  /// while queue_limit pieces are waiting. Work must not wait for streams, nor take locks that a caller of this could
  /// hold (the GIL).
  template <typename F>
  void submit(const WorkInfo& info, F&& work) {
    using Body = std::decay_t<F>;
    if (begin_inline(info))
      run_inline(info, base::FunctionRef<int64_t()>(work));
    else
      enqueue(info, std::make_unique<Item<Body>>(std::forward<F>(work)));
  }
  static constexpr size_t queue_limit = 1024;

  /// A signal that is reached when all work enqueued so far is done. Never throws an error of the stream.
  std::shared_ptr<Signal> record();
  /// Work enqueued from now on starts after the signal, of any stream of any device. Throws the pending error.
  void wait(std::shared_ptr<Signal> signal);

  /// True when all work enqueued so far is done. Throws the pending error.
  bool query();
  /// True when all work enqueued so far is done; reports and clears nothing.
  bool idle() const;
  /// Blocks until all work enqueued so far is done, then throws the pending error, if any. Release the GIL around it.
  void synchronize();
  /// The same without reporting an error.
  void drain();
  /// Takes the pending error: returns it and makes the stream usable, or null.
  std::exception_ptr take_error();

  /// The stream's modelled clock (ps), of the work done so far.
  int64_t modelled_ps() const { return modelled_ps_.load(std::memory_order_acquire); }

  Stream(Device& device, int64_t id, int priority);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

 private:
  friend class Signal;
  friend class Scheduler;
  friend class Event;

  struct ItemBase {
    virtual ~ItemBase() = default;
    virtual int64_t run() = 0;
  };
  template <typename F>
  struct Item final : ItemBase {
    template <typename G>
    explicit Item(G&& work) : body(std::forward<G>(work)) {}
    int64_t run() override { return body(); }
    F body;
  };
  struct Entry {
    WorkInfo info;
    std::unique_ptr<ItemBase> work;  // null in an entry without work, and in a dropped one
    std::shared_ptr<Signal> wait, reach;
    FailurePtr failure;     // of `reach`: it came behind a failure that was reported since
    bool forgiven = false;  // of `wait`: its failure was reported before the wait was enqueued
  };
  enum class State : uint8_t { empty, ready, running, parked };

  bool begin_inline(const WorkInfo& info);
  void run_inline(const WorkInfo& info, base::FunctionRef<int64_t()> work);
  void finish_inline();
  void enqueue(const WorkInfo& info, std::unique_ptr<ItemBase> work);
  void push(Entry entry);
  void absorb(const Signal& signal, bool forgiven);
  void throw_pending(std::unique_lock<std::mutex>& lock);
  FailurePtr take_failure(std::vector<std::unique_ptr<ItemBase>>& dropped);
  void execute(const WorkInfo& info, base::FunctionRef<int64_t()> work);
  void run_some(uint64_t until);  // by whoever took it out of the scheduler's list
  bool step(std::unique_lock<std::mutex>& lock);
  void finish_entry();
  void resume();  // a signal it is parked on was reached
  void clear(const FailurePtr& failure);
  void wait_for(std::unique_lock<std::mutex>& lock, uint64_t target);
  void help(const Signal& signal);

  Device& device_;
  const int64_t id_;
  const int priority_;
  std::atomic<int64_t> modelled_ps_{0};
  mutable std::mutex mutex_;  // all below
  mutable std::condition_variable changed_;
  int waiters_ = 0;
  State state_ = State::empty;
  uint64_t enqueued_ = 0, done_ = 0;  // entries, inline work included
  std::deque<Entry> queue_;
  FailurePtr failure_;
};

/// What torch calls an event: the latest signal recorded with it. Thread-safe.
class Event {
 public:
  enum class Clock : uint8_t { modelled, host };
  /// Which clock elapsed_ms() reads; SPYRE_EVENT_CLOCK=host makes host the default one.
  explicit Event(std::optional<Clock> clock = std::nullopt);

  void record(Stream& stream);
  /// Work enqueued on `stream` from now on waits for the latest record; without one, for nothing.
  void block(Stream& stream) const;
  /// True when the latest record is reached, or there was none. Throws the error it came behind, if not reported yet.
  bool query() const;
  /// Waits for the latest record; throws as query(). Release the GIL around it.
  void synchronize() const;
  bool recorded() const { return latest() != nullptr; }
  /// Milliseconds from this event to `end`. Throws Error(user) unless both were recorded and reached.
  double elapsed_ms(const Event& end) const;
  std::shared_ptr<Signal> latest() const;

 private:
  void report(const Signal& signal) const;
  Clock clock_;
  mutable std::mutex mutex_;
  std::shared_ptr<Signal> signal_;
};

}  // namespace spyre::runtime
