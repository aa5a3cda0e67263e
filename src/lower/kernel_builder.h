// KernelBuilder: writes one kernel of a tile program, statement by statement, in the words of docs/tile_program.md.
#pragma once

#include <functional>
#include <set>
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

/// Integer expressions; all of them fold constants.
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
Entry along(Id range);  ///< the range's indices
/// A point. Where it names the start of a range that may be empty while its body runs (a core range, a uniform loop),
/// it is still a point then: write along() for a range that advances by 1 instead.
Entry at(IntExpr index);
/// Indices base + step x p, p < extent; `range` (optional) is the one that makes the extent.
Entry span_of(IntExpr base, IntExpr extent, int64_t step = 1, Id range = none);
Entry indexed(BufRef index, IntExpr lo, IntExpr hi, program::OnOutside outside);
/// Box positions of buffer operands.
BufDim all();
BufDim box(IntExpr first, IntExpr size);

/// Vector expressions.
program::VecExpr number(double value);      ///< f32
program::VecExpr integer(int64_t value);    ///< i32
program::VecExpr integer_of(IntExpr expr);  ///< i32
program::VecExpr iota(int dim);             ///< position along a dimension of the result's box, i32
/// An operation with the type that follows from its arguments. Throws Error(program) when they don't fit.
program::VecExpr apply(program::VecOp op, std::vector<program::VecExpr> args, bool trap = false);
/// To f32 or i32; the expression itself when it has the type.
program::VecExpr cast(program::VecExpr value, program::Reg type, bool trap = false);

/// `name` with what isn't legal in a name of a tile program made legal.
std::string legal_name(std::string_view name);

/// The name, or with a number behind it when it is taken; the result is taken then.
std::string unique_name(const std::string& name, std::set<std::string>& taken);

/// Not copied or moved: open blocks are known by their place.
class KernelBuilder {
 public:
  /// `name` may be any text, such as an op's name: what isn't legal in a name becomes _.
  KernelBuilder(std::string_view name, int32_t cores);
  KernelBuilder(const KernelBuilder&) = delete;
  KernelBuilder& operator=(const KernelBuilder&) = delete;

  /// A formal; `name` is made unique.
  Id formal(program::Direction direction, Format format, layout::HostView view, layout::Geometry geometry,
            std::string_view name);
  Id add_scalar(std::string_view name, bool is_float, double lo, double hi);
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
  const program::Symbol& formal_of(Id formal) const;
  /// A buffer operand, or a scalar, as a vector expression of the type its registers have.
  program::VecExpr use(BufRef ref) const;
  program::VecExpr use_scalar(Id scalar) const;

  // Steps. `share`: grid id or none.
  void load(BufRef to, Id formal, std::vector<Entry> entries, double fill = 0, Id share = none);
  void store(Id formal, std::vector<Entry> entries, BufRef from, bool ordered = false);
  void vector(std::vector<BufRef> to, std::vector<program::VecExpr> value);
  void reduce(program::Monoid monoid, bool trap, std::vector<BufRef> state, std::vector<program::VecExpr> init,
              program::VecExpr value, int dim);
  void matmul(bool on_pt, BufRef acc, BufRef a, BufRef b, std::vector<Id> init_loops, bool accumulate = true);
  void step(program::Op op);

  /// Places the buffers and hands the kernel out; the builder is done then. Locs of steps index `locs`.
  program::Kernel finish();
  const std::vector<program::Loc>& locs() const { return locs_; }

 private:
  std::string unique(std::string_view name);
  Id add_range(program::Range range, const Bounds& bounds, int64_t by, std::string_view name);
  void enter(program::Block& block, const std::function<void()>& body);
  program::Block& block();

  program::Kernel kernel_;
  std::vector<program::Loc> locs_;
  Id loc_ = none;
  std::vector<program::Block*> blocks_;          // innermost last
  std::vector<Id> ranges_in_scope_;              // innermost last
  std::vector<std::vector<Id>> declared_under_;  // per buffer: the ranges in scope there
  std::set<std::string> names_;
};

/// `for r in bounds by T [uniform] { body }` over at most `length` indices, in several levels where one loop would have
/// more than `max_trips`: the body's range is the innermost. `levels` (null: not wanted) gets all, outermost first.
void long_loop(KernelBuilder& builder, Bounds bounds, int64_t length, int64_t by, int64_t max_trips,
               const std::function<void(Id range)>& body, bool uniform = false, std::vector<Id>* levels = nullptr);

}  // namespace spyre::lower
