// Window: the step instances a core knows of and has not finished. It keeps dependences (rules D, S and F of
// docs/tile_program.md section 4), starts the oldest ready instance on each free unit, and lets running instances share
// the LX port and the memory. Time is integer picoseconds from `now`; all else is relative, so that equal states mean
// equal futures.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "timing/cost.h"
#include "timing/kernel_model.h"

namespace spyre::timing {

/// Told when an instance gives its unit back: for traces.
class WindowListener {
 public:
  virtual ~WindowListener() = default;
  virtual void ran(int step, const Cost& cost, int64_t start_ps, int64_t end_ps) = 0;
};

class Window {
 public:
  Window(const KernelModel& model, WindowListener* listener);

  int64_t now() const { return now_; }
  /// Known instances that have not started.
  int64_t waiting() const { return waiting_; }
  bool empty() const { return base_ == next_; }

  /// A new instance of a buffer: the scope that declares it is entered once more.
  void declare(Id buffer);
  /// Adds the next instance in sequential order.
  void add(int step, const Cost& cost, const Values& values);
  /// Starts what can start now.
  void start();
  /// Lets time pass to the next end of an instance. Throws Error(program) when nothing runs (a deadlock: not verified).
  void advance();
  /// Everything that the future depends on.
  void state(std::vector<int64_t>& out);
  void skip_time(int64_t ps) { now_ += ps; }

 private:
  enum class Phase : uint8_t { waiting, running, landing, done };
  struct Instance {
    int step = 0;
    Phase phase = Phase::waiting;
    int64_t missing = 0;  ///< unfinished instances it waits for
    int64_t left_ps = 0;  ///< running: of its work; landing: of its latency
    int64_t start_ps = 0;
    int64_t port = 0, memory = 0, stream = 0;  ///< use of what is shared while running alone, in 1/65536
    int64_t mark = -1;                         ///< last instance that came to wait for this one
    Cost cost;
    std::vector<int64_t> followers;
  };
  struct Piece {
    int64_t writer = -1;
    std::vector<int64_t> readers;
  };
  struct Slot {
    std::vector<int64_t> waits;  ///< rule S: those that used these bytes before
    std::vector<Piece> pieces;
  };
  struct BufferState {
    int64_t instance = -1;
    std::vector<Slot> slots;
  };

  Instance& at(int64_t seq) { return instances_[static_cast<size_t>(seq) & (instances_.size() - 1)]; }
  bool unfinished(int64_t seq) { return seq >= base_ && at(seq).phase != Phase::done; }
  void wait_for(int64_t seq, int64_t earlier);
  void touch(int64_t seq, const Touch& t, const Values& values);
  void prune(std::vector<int64_t>& list);
  void collect(Slot& slot, std::vector<int64_t>& out);
  void finish(int64_t seq);
  void ready(int64_t seq);
  int64_t slowness(const Instance& i) const;
  void sum_demands();

  const KernelModel& model_;
  WindowListener* listener_;
  std::vector<Instance> instances_;  // ring, a power of two
  int64_t base_ = 0, next_ = 0;      // sequential numbers: oldest not finished, next to add
  int64_t now_ = 0, waiting_ = 0;
  static constexpr int units = 8;
  std::array<std::vector<int64_t>, units> ready_;  // min-heaps
  std::array<int64_t, units> running_;             // or -1
  std::vector<int64_t> landing_, finished_;
  int64_t port_ = 0, memory_ = 0, stream_ = 0;  // sums over running instances
  std::vector<BufferState> buffers_;
  std::vector<Id> live_;            // buffers declared so far
  std::vector<int64_t> transfers_;  // unfinished loads and stores, for fences
  int64_t fence_ = -1;
  std::vector<int64_t> ordered_;  // by formal: last ordered store
};

}  // namespace spyre::timing
