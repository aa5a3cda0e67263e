// CompiledKernel: a kernel lowered to the card's own form, and its sequential run over the cores.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "card/core.h"
#include "card/symbol_map.h"

namespace spyre::card {

class CompiledKernel {
 public:
  /// Throws Error(program) naming step and loc for what does not fit, Error(unimplemented) for what the card can't run.
  CompiledKernel(const program::Program& program, const program::Kernel& kernel);

  struct Block;
  struct Node {
    enum class Kind : uint8_t { declare, core_range, loop, branch, step } kind = Kind::step;
    Id id = program::none;  // buffer or range
    bool collective = false;
    Id grid = program::none;                // of a core range
    const program::Range* range = nullptr;  // of a loop
    const program::Kernel* kernel = nullptr;
    Expr lo, hi;
    int64_t by = 1;
    struct Test {
      program::Compare::Op op;
      Expr a, b;
    };
    std::vector<Test> tests;
    std::unique_ptr<StepExec> exec;
    const program::Step* step = nullptr;
    std::unique_ptr<Block> body;

    bool holds(const int64_t* v) const;
    int64_t trips(const int64_t* v) const;
    /// Sets the range's variables for a trip.
    void enter(const VarMap& vars, int64_t* v, int64_t trip) const;
  };
  struct Block {
    std::vector<Node> nodes;
    bool collective = false;
    /// The first collective node from i on, or the end: up to there cores do not need each other.
    size_t next_collective(size_t i) const {
      while (i < nodes.size() && !nodes[i].collective) ++i;
      return i;
    }
  };
  struct Nest {
    const program::Nest* source = nullptr;
    int cores = 1;
    Block body;
    std::vector<int> order;  ///< of its cores: when a thread takes them
  };

  const program::Kernel& kernel() const { return *kernel_; }
  const VarMap& vars() const { return vars_; }
  const std::vector<BufferInfo>& buffers() const { return buffers_; }
  const std::vector<Nest>& nests() const { return nests_; }
  /// True when cores must keep their LX between steps of other cores (collectives, buffers of the kernel's scope).
  bool needs_own_lx() const { return own_lx_; }
  /// Sets up a core's variables at the start of a nest.
  void set_coordinates(Core& core, int nest, const std::vector<int64_t>& scalars) const;
  /// Makes a new instance of a buffer.
  void declare(Core& core, Id buffer) const;
  /// Runs one step of one core; errors name the step's loc.
  void run_step(const Node& node, Core& core) const;
  void run_collective(const Node& node, std::span<Core* const> cores) const;

  /// Fills run.nest_core_ranges.
  void fill_core_ranges(KernelRun& run, const std::vector<int64_t>& scalars) const;
  /// Makes a core ready to start the kernel.
  void prepare(Core& core, KernelRun& run, int id, std::byte* lx) const;

  /// Runs the kernel in sequential order. `scalars`: values of i32 scalars by kernel scalar.
  void run(KernelRun& run, const std::vector<int64_t>& scalars) const;

 private:
  /// Where a step stands.
  struct Scope {
    const program::Nest& nest;
    std::vector<Id> grid_order;
    std::vector<Id> loops;  ///< around it, outermost first
  };
  /// The grid dimensions as threads go through them, the fastest first: that over which the largest tile is shared,
  /// then from the last to the first.
  std::vector<Id> grid_order(const program::Nest& nest) const;
  static std::vector<int> core_order(const program::Nest& nest, const std::vector<Id>& grid_order);
  void count_uses();
  void find_passing(const Block& block);
  Block compile(const program::Block& block, Scope& scope);
  /// True when step `a` makes nothing but what `b`, the step after it, stores, in a buffer that no other step names.
  bool forwards(const program::Step& a, const program::Step& b) const;
  std::unique_ptr<StepExec> compile(const program::Step& step, const Scope& scope);
  void run_block(const Block& block, size_t first, size_t last, Core& core) const;
  void run_together(const Block& block, std::span<Core* const> cores, bool parallel) const;

  const program::Program* program_;
  const program::Kernel* kernel_;
  VarMap vars_;
  std::vector<BufferInfo> buffers_;
  std::vector<std::unique_ptr<SymbolMap>> symbols_;
  std::vector<Nest> nests_;
  std::vector<int> uses_;           ///< by buffer: operands of steps that name it
  std::vector<bool> numbers_only_;  ///< by buffer: read by vector steps, reductions and as A of products alone, by none
                                    ///< that writes it
  /// By buffer, where cores keep their LX: from its declaration to its last use the core needs no other.
  std::vector<bool> passing_;
  bool own_lx_ = false;
  bool remaps_ = false;
};

}  // namespace spyre::card
