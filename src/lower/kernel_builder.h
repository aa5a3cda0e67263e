// KernelBuilder: writes one kernel of a tile program, statement by statement, in the words of docs/tile_program.md.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/tree.h"

namespace spyre::lower {

using program::BufDim;
using program::BufRef;
using program::Entry;
using program::Format;
using program::Id;
using program::IntExpr;
using program::none;

/// Integer expressions; + - * fold constants.
IntExpr constant(int64_t value);
IntExpr operator+(IntExpr a, IntExpr b);
IntExpr operator-(IntExpr a, IntExpr b);
IntExpr operator*(IntExpr a, int64_t factor);
IntExpr div(IntExpr a, int64_t divisor);
IntExpr mod(IntExpr a, int64_t divisor);
IntExpr min(IntExpr a, IntExpr b);
IntExpr max(IntExpr a, IntExpr b);
IntExpr start(Id range);
IntExpr size(Id range);
IntExpr trip(Id range);
IntExpr coordinate(Id grid);
IntExpr scalar(Id scalar);

/// Bounds of a range: LO..HI, or another range.
struct Bounds {
  IntExpr lo, hi;
  Id parent = none;
  static Bounds of(int64_t lo, int64_t hi);
  static Bounds of(IntExpr lo, IntExpr hi);
  static Bounds within(Id range);
};

/// Entries of memory accesses.
Entry along(Id range);    ///< the range's indices
Entry at(IntExpr index);  ///< a point
Entry span_of(IntExpr base, IntExpr extent, int64_t step = 1, Id range = none);
Entry indexed(BufRef index, IntExpr lo, IntExpr hi, program::OnOutside outside);
/// Box positions of buffer operands.
BufDim all();
BufDim box(IntExpr first, IntExpr size);

class KernelBuilder {
 public:
  KernelBuilder(std::string name, int32_t cores);

  /// A formal; `name` is made unique.
  Id formal(program::Direction direction, Format format, layout::HostView view, layout::Geometry geometry,
            std::string_view name);
  Id add_scalar(std::string name, bool is_float, double lo, double hi);
  /// The loc of the steps that follow.
  void loc(const program::Loc& loc);

  /// Opens a nest over a grid of these sizes (each >= 1); grid ids are 0, 1, ... in it. Ends with the next nest() or
  /// finish().
  void nest(std::span<const int32_t> grid);
  /// `core r in bounds by T on grid`. Returns the range.
  Id core(Bounds bounds, int64_t by, Id grid, std::string_view name = "r");
  /// `for r in bounds by T [uniform] { body }`.
  Id loop(Bounds bounds, int64_t by, const std::function<void(Id range)>& body, bool uniform = false,
          std::string_view name = "i");
  /// `if a and b ... { body }`
  void when(program::Condition condition, const std::function<void()>& body);
  /// Declares a buffer here (kernel scope before the first nest).
  Id buffer(Format format, std::vector<int64_t> shape, int32_t slots = 1, std::string_view name = "b");
  /// A buffer operand: whole; or the positions of these ranges from the left, `none` = all of that dimension; or boxes.
  BufRef ref(Id buffer) const;
  BufRef ref(Id buffer, std::span<const Id> ranges) const;
  BufRef ref(Id buffer, std::vector<BufDim> box) const;
  const program::Buffer& buffer_of(Id buffer) const;
  const program::Range& range_of(Id range) const;

  // Steps. `share`: grid id or none.
  void load(BufRef to, Id formal, std::vector<Entry> entries, double fill = 0, Id share = none);
  void store(Id formal, std::vector<Entry> entries, BufRef from, bool ordered = false);
  void vector(std::vector<BufRef> to, std::vector<program::VecExpr> value);
  void reduce(program::Monoid monoid, bool trap, std::vector<BufRef> state, std::vector<program::VecExpr> init,
              program::VecExpr value, int dim);
  void matmul(bool on_pt, BufRef acc, BufRef a, BufRef b, std::vector<Id> init_loops, bool accumulate = true);
  void step(program::Op op);

  /// Places the buffers and hands the kernel and its locs out. Locs of steps index `locs`.
  program::Kernel finish();
  const std::vector<program::Loc>& locs() const;

 private:
  program::Kernel kernel_;
  std::vector<program::Loc> locs_;
  Id loc_ = none;
  std::vector<program::Block*> blocks_;  // innermost last
};

}  // namespace spyre::lower
