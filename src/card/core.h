// Core: the state of one core while a kernel runs. KernelRun: what its cores share. StepExec: a step in executable
// form.
#pragma once

#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "card/host_tile.h"
#include "card/lazy_tile.h"
#include "card/memory.h"
#include "card/view.h"
#include "device/description.h"

namespace spyre::card {

class Checker;

/// Growable, uninitialised working memory of one thread, by slot number.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  ~Scratch() {
    for (auto& b : blocks_) std::free(b.data);
  }
  /// At least `bytes` bytes, aligned to 128; valid until the next request for the same slot.
  template <typename T>
  T* get(int slot, int64_t count) {
    return static_cast<T*>(bytes(slot, count * static_cast<int64_t>(sizeof(T))));
  }
  /// The calling thread's.
  static Scratch& mine();

  enum Slot { registers, values, left, right, rows, outputs, sort_a, sort_b, offsets, misc, slots };

 private:
  struct Block {
    void* data = nullptr;
    int64_t bytes = 0;
  };
  void* bytes(int slot, int64_t count);
  Block blocks_[slots];
};

/// What all cores of one kernel call share.
struct KernelRun {
  const program::Kernel* kernel = nullptr;
  const device::Description* description = nullptr;
  const Memory* memory = nullptr;
  VarMap vars;
  std::vector<std::byte*> symbol_base;                 ///< host address of the allocation of each formal
  std::vector<uint64_t> symbol_address;                ///< its device address
  std::vector<Id> program_symbol;                      ///< the actual of each formal
  std::vector<float> float_scalars;                    ///< by kernel scalar
  std::vector<std::vector<int64_t>> nest_core_ranges;  ///< [nest] core x range x (start, size), for ring.remap
  std::vector<Core*> all_cores;                        ///< set while cores keep their own LX
  uint64_t call = 0;                                   ///< no other kernel call of the process has this number
  Checker* checker = nullptr;
  bool lazy_loads = false;
  bool real_slots = false;  ///< rotate slots as the hardware does, instead of reusing the first
};

struct Core {
  int id = 0;
  KernelRun* run = nullptr;
  std::vector<int64_t> vars;
  std::byte* lx = nullptr;
  std::vector<std::byte*> buffers;  ///< current instance of each buffer, null before its declaration
  std::vector<LazyTile> lazy;       ///< by buffer; when not pending, what was last loaded there
  std::vector<int64_t> instances;   ///< instances of each buffer declared so far
  bool forwarded = false;           ///< the last step has done the store that follows it
  const int64_t* v() const { return vars.data(); }
};

/// A step made ready to run. Immutable; shared by cores and threads.
class StepExec {
 public:
  virtual ~StepExec() = default;
  /// Runs the step of one core.
  virtual void run(Core& core) const = 0;
  /// True for steps that need the values of several cores at once (not `share` loads: those only save bandwidth).
  virtual bool collective() const { return false; }
  /// Collective steps: runs the step of all cores of a nest that take part.
  virtual void run_all(std::span<Core* const> cores) const {
    for (Core* c : cores) run(*c);
  }
  /// Stores: describes in device memory where the whole tile goes; false when it doesn't lie evenly there.
  virtual bool destination(Core&, host::MutableTile&) const { return false; }
  /// Vector steps whose only result is the box of a buffer that `store`, the next step, stores, and that nothing else
  /// uses: the result may go to memory at once, which spares LX and spreads the writes over the computation. The step
  /// then sets Core::forwarded.
  virtual void forward_to(const StepExec*) {}
};

/// What compiling a step needs to know of its kernel.
struct StepContext {
  const program::Program& program;
  const program::Kernel& kernel;
  const program::Nest& nest;
  const VarMap& vars;
  const std::vector<BufferInfo>& buffers;
  const std::vector<std::unique_ptr<class SymbolMap>>& symbols;  ///< by formal
  const std::vector<Id>& loops;                                  ///< loops around the step, outermost first
  const std::vector<Id>& grid_order;      ///< grid dimensions as threads go through them, the fastest first
  const std::vector<bool>& numbers_only;  ///< by buffer: no step looks at its codes
  const std::vector<int>& uses;           ///< by buffer: operands of steps that name it
};

std::unique_ptr<StepExec> make_load(const program::Load& op, const StepContext& context);
std::unique_ptr<StepExec> make_store(const program::Store& op, const StepContext& context);
std::unique_ptr<StepExec> make_matmul(const program::MatMul& op, const StepContext& context);
std::unique_ptr<StepExec> make_vector(const program::Vector& op, const StepContext& context);
std::unique_ptr<StepExec> make_reduce(const program::Reduce& op, const StepContext& context);
std::unique_ptr<StepExec> make_scan(const program::Scan& op, const StepContext& context);
std::unique_ptr<StepExec> make_sort(const program::Sort& op, const StepContext& context);
std::unique_ptr<StepExec> make_gather_scatter(const program::GatherScatter& op, const StepContext& context);
std::unique_ptr<StepExec> make_move(const program::Move& op, const StepContext& context);
std::unique_ptr<StepExec> make_ring(const program::Ring& op, const StepContext& context);
std::unique_ptr<StepExec> make_partial_sum(const program::PartialSum& op, const StepContext& context);
std::unique_ptr<StepExec> make_fence(const program::Fence& op, const StepContext& context);

/// Puts a pending lazy tile of `buffer` into LX.
void materialize(Core& core, Id buffer);

}  // namespace spyre::card
