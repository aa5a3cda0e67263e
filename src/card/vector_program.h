// VectorProgram: sfp expressions as register programs that run strip by strip (docs/host_speed.md, decision 6).
//
// The box of a step is rows (all dimensions but the last) of columns. A strip is some rows x some columns, 1,024 or
// 2,048 lanes. Each value belongs to one of three classes and is computed only as often as it changes: once a run, once
// a row, or for every lane.
#pragma once

#include <span>
#include <vector>

#include "base/small_vector.h"
#include "card/core.h"
#include "card/host_kernels.h"

namespace spyre::card {

class VectorProgram {
 public:
  /// Compiles the expressions over one box of `rank` dimensions; `round_dl16`: the first one's values become those of
  /// their DL16 codes. Throws Error(program).
  VectorProgram(const std::vector<const program::VecExpr*>& roots, int rank, const StepContext& context,
                bool round_dl16 = false);

  /// lane < row < all: how often a value changes.
  enum class Class : uint8_t { once, row, lane };
  struct Value {
    const void* data = nullptr;  ///< 32-bit lanes: once: 1; row: one a row; lane: rows x columns, row-major
    Class cls = Class::once;
    program::Reg type = program::Reg::f32;
  };

  /// One run of the program by one core. Only one may be between start() and its last strip on a thread: they share
  /// registers.
  class Run {
   public:
    /// Resolves operands; the box gets the smallest size of those that are not 1 by their text (1 where there are
    /// none). `results`: what will be written while strips run. The verifier sees to it that operands in the same
    /// buffers are at the same lanes. `piecewise`: tiles that only this program reads, once, are decoded strip by strip
    /// where they lie.
    Run(const VectorProgram& program, Core& core, std::span<const View> results, bool piecewise = false);
    const std::array<int64_t, max_rank>& sizes() const { return sizes_; }
    /// Shrinks or sets a dimension of the box; before start().
    void set_size(int d, int64_t size) { sizes_[d] = size; }
    /// Sets up registers and computes what never changes.
    void start();
    bool empty() const { return rows_ <= 0 || cols_ <= 0; }
    int64_t rows() const { return rows_; }
    int64_t cols() const { return cols_; }
    int64_t strip_rows() const { return strip_rows_; }  ///< most rows of a strip
    int64_t strip_cols() const { return strip_cols_; }
    /// Computes rows r..r+nr-1, columns c..c+nc-1; nr > 1 only with all columns. `to`: where the lanes of the only root
    /// may be computed at once, as f32 or i32; value() tells where they are. May be what an operand reads, at the same
    /// lanes.
    void strip(int64_t r, int64_t nr, int64_t c, int64_t nc, void* to = nullptr);
    Value value(int root) const;
    /// True when some operand is read strip by strip where it lies in device memory.
    bool reads_memory() const;
    /// The value of a root as nr x nc lanes (a `once` or `row` value is spread into `to`; else its own place is
    /// returned).
    const void* lanes(int root, void* to, int64_t nr, int64_t nc) const;

   private:
    friend class VectorProgram;
    struct Source {
      View view;
      std::array<int64_t, max_rank> stride{};  // per box dimension, elements; 0 broadcasts
      bool unit = true;                        // columns lie next to each other
      bool dense = false;                      // rows follow each other without gaps
      bool in_memory = false;                  // still in device memory: `tile` says where
      host::Tile tile;
    };
    const std::byte* at(const Source& s, int64_t row) const;
    void execute(int node, int64_t n, int64_t r, int64_t nr, int64_t c, int64_t nc);
    void run_chain(int number, float* to, int64_t nr, int64_t nc);
    const void* argument(int node, Class consumer, int64_t nr, int64_t nc, host::Splat bit, host::Splat& splat);
    void check_read(const Source& source) const;
    bool needs_rows() const;
    void* reg(int number) const;
    void load(int node, int64_t r, int64_t nr, int64_t c, int64_t nc);
    void iota(int node, int64_t r, int64_t nr, int64_t c, int64_t nc);

    const VectorProgram& program_;
    Core& core_;
    std::array<int64_t, max_rank> sizes_{};
    base::SmallVector<Source, 6> sources_;
    bool direct_ = true;
    int64_t rows_ = 1, cols_ = 1, strip_rows_ = 1, strip_cols_ = 1;
    std::byte* registers_ = nullptr;
    int64_t held_column_ = -1, held_cols_ = 0, held_rows_ = 0;  // for which values that repeat are there
    const void** data_ = nullptr;                               // per node
    void* result_ = nullptr;                                    // where the root's lanes go in this strip
    void** spread_ = nullptr;  // per node: its row values spread over lanes in this strip, or null
  };

  int rank() const { return rank_; }
  /// True when dimension d of the box is not 1 for some operand (so operands give its size).
  bool sized_by_operands(int d) const { return sized_[d]; }

 private:
  enum class Kind : uint8_t {
    load,
    constant,
    integer,
    scalar,
    iota,
    f1,
    f2,
    fcmp,
    fma,
    is_nan,
    i1,
    i2,
    icmp,
    select,
    mask_not,
    mask_and,
    mask_or,
    cast_fi,
    cast_if,
    cast_mf,
    cast_mi,
    copy,
    philox,
    chain
  };
  /// One operation of a chain, and its other operand: a node, or a slot of the chain.
  struct Link {
    host::F32Link op;  ///< of the `_all` forms
    int with = -1, slot = -1;
  };
  struct Node {
    const program::VecExpr* expr = nullptr;
    Kind kind = Kind::constant;
    program::Reg type = program::Reg::f32;
    Class cls = Class::once;
    bool repeats = false;  // lanes that are the same in every row: computed once a block of columns, and kept
    int args[3] = {-1, -1, -1};
    int count = 0;
    std::vector<Link> links;  // chain: what is done to args[0], in order
    bool absorbed = false;    // computed as part of a chain
    int op = 0;               // index into the kernel tables
    int source = -1;          // load
    int dim = 0;              // iota: box dimension
    Expr value;               // integer
    int reg = -1;             // register number
    int spread_reg = -1;
  };
  int add(const program::VecExpr& e, const StepContext& context);
  /// Joins operations whose values go nowhere but into each other.
  void make_chains();
  class ChainMaker;
  friend class ChainMaker;
  template <typename Fn>
  static void for_each_argument(const Node& node, Fn fn) {
    for (int a = 0; a < node.count; ++a) fn(node.args[a]);
    for (const Link& l : node.links)
      if (l.with >= 0) fn(l.with);
  }
  void allocate();

  int rank_ = 1;
  std::vector<Node> nodes_;
  std::vector<int> roots_;
  std::vector<Operand> operands_;
  std::vector<bool> read_once_;  ///< by operand: nothing else names its buffer but the step that fills it
  std::array<bool, max_rank> sized_{};
  int registers_ = 0;
  int64_t strip_lanes_ = 1024;  ///< so many that registers and operands stay in the first-level cache
  /// Padded off multiples of 4 KB, which would compete for the same cache sets.
  int64_t register_bytes() const { return strip_lanes_ * 4 + 128; }
  bool spreads_ = false;  // some value of a row goes to all its lanes
};

}  // namespace spyre::card
