// The tile program as a tree: what the assembler parses, the container holds, the verifier checks, timing/ prices and
// card/ runs. Meaning: docs/tile_program.md. Sizes are concrete; addresses (symbols) and scalars are bound at launch.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/formats.h"
#include "layout/geometry.h"
#include "program/int_expr.h"

namespace spyre::program {

using base::Format;

/// Op and source line that a step stands for; traps, verifier errors and traces print it.
struct Loc {
  std::string op;      ///< "aten.addmm"
  std::string source;  ///< "model.py:42"
  bool operator==(const Loc&) const = default;
};

enum class Direction : uint8_t { in, out, inout, temp };

/// A tensor named by a program or by a kernel's formal: everything but the address.
struct Symbol {
  std::string name;
  Direction direction = Direction::in;
  Format format = Format::dl16;
  layout::HostView view;      ///< sizes, strides, offset in host elements
  layout::Geometry geometry;  ///< of the allocation the view lies in
  bool operator==(const Symbol&) const = default;
};

/// A number known to the host at launch. The launch refuses values outside [lo, hi]; i32 bounds are exact in double.
struct Scalar {
  std::string name;
  bool is_float = false;
  double lo = 0, hi = 0;
  bool operator==(const Scalar&) const = default;
};

// ------------------------------------------------------------------------------------------------- ranges and buffers

struct GridDim {
  std::string name;
  int32_t size = 1;
  bool operator==(const GridDim&) const = default;
};

/// `core m in LO..HI by T on mc` (is_core): start LO + T x mc. `for k in LO..HI by T`: the trips. `for t in c by T`:
/// parent = c. Both: size = clip(HI - start, 0, T).
struct Range {
  std::string name;
  bool is_core = false;
  Id parent = none;  ///< the range that LO..HI was written as, if it was
  IntExpr lo, hi;    ///< for a parent: start and start + size of it
  int64_t by = 1;
  Id grid = none;        ///< is_core: grid dimension of its nest
  bool uniform = false;  ///< all cores make the trips of an unclipped core; extra ones have size 0
  bool operator==(const Range&) const = default;
};

/// `buf b f32[64,128] x2 @BYTES pieces(1:8192)`. Rows (last dimension) are padded to whole sticks. Declared in the
/// scope where its Declare statement stands; the scope's each execution makes a new instance.
struct Buffer {
  std::string name;
  Format format = Format::f32;
  std::vector<int64_t> shape;  ///< 1 or more dimensions, each >= 1
  int32_t slots = 1;
  int64_t lx_offset = -1;  ///< bytes in LX; -1 = not placed yet (the assembler places)
  int32_t piece_dim = -1;  ///< dependences are kept per piece of `piece_size` along this dimension
  int64_t piece_size = 0;
  bool operator==(const Buffer&) const = default;
  int64_t row_elements() const;  ///< last dimension rounded up to whole sticks
  int64_t slot_bytes() const;
};

// ------------------------------------------------------------------------------------------------------------ operands

/// One dimension of a buffer operand. Positions are relative to the buffer.
struct BufDim {
  enum class Kind : uint8_t {
    whole,  ///< `_` or not written: all positions (size 1 broadcasts)
    box,    ///< positions first .. first + size
  };
  Kind kind = Kind::whole;
  IntExpr first, size;
  Id range = none;  ///< written as this range: first = its start less that of the innermost enclosing range in whose
                    ///< scope the buffer was declared (itself: 0), size = its size. The assembler fills first and size.
  bool operator==(const BufDim&) const = default;
};

/// `b`, `b[_, t]`, `b^T`. An empty box is the whole buffer with all its lanes.
struct BufRef {
  Id buffer = none;
  std::vector<BufDim> box;
  bool transposed = false;
  bool operator==(const BufRef&) const = default;
};

/// What a step does when an index leaves its bounds. A load gives the row its fill value for skip and fill alike;
/// stores, scatters and gathers leave the row alone for skip.
enum class OnOutside : uint8_t { trap, skip, fill };

/// One logical dimension of a memory access. Affine: indices base + step x p, p < extent. Indexed: element index taken
/// from an i32 buffer, one value per row of the tile (row = a whole buffer or box), or one element.
struct Entry {
  enum class Kind : uint8_t { affine, indexed };
  Kind kind = Kind::affine;
  IntExpr base;      ///< affine: first index, before clipping to the view
  int64_t step = 1;  ///< affine: > 0
  IntExpr extent;    ///< affine: number of indices; a constant 1 is a point
  Id range = none;   ///< affine: the range that makes the extent, or none; conventions.h says how text names it, and
                     ///< tile_dimensions() there which buffer dimension an entry walks
  BufRef index;      ///< indexed
  IntExpr lo, hi;    ///< indexed: `in R`, legal values lo <= i < hi
  OnOutside outside = OnOutside::trap;  ///< indexed
  bool operator==(const Entry&) const = default;
};

/// `x[m, k, 0..64]`: one entry per logical dimension of the symbol's view. Tile dimensions are the entries in order;
/// when there are more entries than buffer dimensions, entries that are points (static extent 1) are dropped from the
/// left until the numbers agree; when fewer, the buffer's leading dimensions must be 1.
struct MemRef {
  Id symbol = none;  ///< formal of the kernel
  std::vector<Entry> entries;
  bool operator==(const MemRef&) const = default;
};

// --------------------------------------------------------------------------------------------------- vector
// expressions

/// Type of an SFP register.
enum class Reg : uint8_t { f32, i32, pred };

enum class VecOp : uint8_t {
  // leaves
  operand,     ///< `ref`: buffer lanes, broadcast by size-1 dimensions
  constant_f,  ///< `number`
  constant_i,  ///< `integer`
  integer,     ///< `expr`: c.size, m.start, ... as i32
  scalar,      ///< scalar parameter `id`
  iota,        ///< position along dimension `id` of the box of the result, i32, from 0
  // f32 and i32
  add,
  sub,
  mul,
  div,
  min,
  max,
  abs,
  neg,
  square,
  // f32 -> f32
  floor,
  ceil,
  round,
  trunc,
  exp,
  expm1,
  log,
  log1p,
  log2,
  exp2,
  sqrt,
  rsqrt,
  sin,
  cos,
  tan,
  tanh,
  erf,
  pow,
  fmod,
  fma,
  rcp,
  sign,
  // i32: division and remainder; `div` on i32 truncates, floor_div and remainder round down
  floor_div,
  remainder,
  bit_and,
  bit_or,
  bit_xor,
  bit_not,
  shl,
  shr,
  // compare -> pred (operands of one type)
  lt,
  le,
  gt,
  ge,
  eq,
  ne,
  is_nan,
  // pred
  logical_and,
  logical_or,
  logical_not,
  select,  ///< args: pred, then, else
  cast,    ///< to `type`; f32 -> i32 truncates
  philox,  ///< args: seed (i32), offset (i32), linear index (i32); `integer` = which of the 4 words; result i32
};

struct VecExpr {
  VecOp op = VecOp::constant_f;
  Reg type = Reg::f32;  ///< of the result
  bool trap = false;    ///< written `!`: an i32 result outside int32 (cast: also NaN) stops the program with an error
  double number = 0;
  int64_t integer = 0;
  Id id = none;
  BufRef ref;
  IntExpr expr;
  std::vector<VecExpr> args;
  bool operator==(const VecExpr&) const = default;
};

// --------------------------------------------------------------------------------------------------------------- steps

/// `ld b[box] = x[...] fill v share(g)`
struct Load {
  BufRef to;
  MemRef from;
  double fill = 0;
  Id share = none;  ///< grid dimension
  bool operator==(const Load&) const = default;
};
/// `st y[...] = b ordered`, `st y[t where ix in v, ...] = row`
struct Store {
  MemRef to;
  BufRef from;
  bool ordered = false;
  Id where_entry =
      none;  ///< entry (a range) whose rows are written only where `where_index` lies in [where_lo, where_hi)
  BufRef where_index;
  IntExpr where_lo, where_hi;
  bool operator==(const Store&) const = default;
};
/// `pt acc (+)= a * w init(k, ...)` and `sfp.mm`. Operands are 2-D tiles (leading dimensions of a larger buffer must be
/// 1).
struct MatMul {
  bool on_pt = true;  ///< false: sfp.mm
  BufRef acc, a, b;
  bool accumulate = false;
  std::vector<Id> init;  ///< overwrite instead when all these loops are in their first trip
  bool operator==(const MatMul&) const = default;
};
/// `sfp y, z = expr, expr`
struct Vector {
  std::vector<BufRef> to;
  std::vector<VecExpr> value;
  bool operator==(const Vector&) const = default;
};
enum class Monoid : uint8_t { sum, prod, max, min, any, all, argmax, argmin, welford, logsumexp };
/// `sfp.red s = sum(l * al, expr over 1)`: state buffers (k per monoid: argmax value+index, welford mean+m2+count,
/// logsumexp max+sum; others 1), optional initial state expressions (absent: the neutral element), reduced over
/// dimension `dim` of the box of `value`, in ascending order.
struct Reduce {
  Monoid monoid = Monoid::sum;
  bool trap = false;  ///< `sum!`, `prod!` on i32
  std::vector<BufRef> state;
  std::vector<VecExpr> init;
  VecExpr value;
  int32_t dim = 0;
  bool operator==(const Reduce&) const = default;
};
/// `sfp.scan y, carry = sum(value, carry)`: inclusive, along the last dimension.
struct Scan {
  Monoid monoid = Monoid::sum;
  bool trap = false;
  BufRef to, carry;
  VecExpr value;
  bool operator==(const Scan&) const = default;
};
/// `sfp.sort v, i = a descending`, `sfp.merge`, `sfp.topk v, i = a, k-best state in v and i`: stable, along the last
/// dimension.
struct Sort {
  enum class Kind : uint8_t { sort, merge, topk } kind = Kind::sort;
  bool descending = false;
  BufRef values, indices;     ///< results
  BufRef from, from_indices;  ///< sort: indices none = 0, 1, ...; topk: a new part, its indices
  bool operator==(const Sort&) const = default;
};
/// `sfp.gather b = a[ix in R outside]`, `sfp.scatter acc[ix in R skip] += v`: along the first dimension of the table.
struct GatherScatter {
  bool scatter = false;
  bool accumulate = false;
  BufRef table, index, data;
  IntExpr lo, hi;  ///< table row = index - lo for lo <= index < hi
  OnOutside outside = OnOutside::trap;
  bool operator==(const GatherScatter&) const = default;
};
/// `mv b = a^T`
struct Move {
  BufRef to, from;
  bool operator==(const Move&) const = default;
};
/// `ring.shift b = a over g by d`, `ring.gather b = a over g`, `ring.remap b = a from(...) to(...)`
struct Ring {
  enum class Kind : uint8_t { shift, gather, remap } kind = Kind::shift;
  BufRef to, from;
  Id grid = none;
  int32_t by = 0;
  std::vector<Id> from_ranges, to_ranges;  ///< remap: one range per buffer dimension (none = whole)
  bool operator==(const Ring&) const = default;
};
/// `psum acc over g to 0|all`
struct PartialSum {
  BufRef acc;
  Id grid = none;
  bool to_all = false;
  bool operator==(const PartialSum&) const = default;
};
/// `fence` (grid none) or `barrier over g`
struct Fence {
  Id grid = none;
  bool operator==(const Fence&) const = default;
};

using Op = std::variant<Load, Store, MatMul, Vector, Reduce, Scan, Sort, GatherScatter, Move, Ring, PartialSum, Fence>;

enum class Unit : uint8_t { ld, st, pt, sfp, mv, ring, psum, sync };

struct Step {
  Op op;
  Id loc = none;
  bool operator==(const Step&) const = default;
};
Unit unit_of(const Step& step);
/// Grid dimension over which the step is collective (share, ring, psum, barrier), or none.
Id collective_of(const Step& step);

// ---------------------------------------------------------------------------------------------------------- statements

struct Compare {
  enum class Op : uint8_t { eq, ne, lt, le, gt, ge } op = Op::eq;
  IntExpr a, b;
  bool operator==(const Compare&) const = default;
};
/// A conjunction. `k.first` is trip(k) == 0; `k.last` is start + by >= hi.
using Condition = std::vector<Compare>;

struct Stmt;
using Block = std::vector<Stmt>;

struct Declare {
  Id buffer = none;
  bool operator==(const Declare&) const = default;
};
struct CoreRange {
  Id range = none;
  bool operator==(const CoreRange&) const = default;
};
struct For {
  Id range = none;
  Block body;
  bool operator==(const For&) const = default;
};
struct If {
  Condition condition;
  Block body;
  bool operator==(const If&) const = default;
};
struct Stmt {
  std::variant<Declare, CoreRange, For, If, Step> node;
  bool operator==(const Stmt&) const = default;
};

/// grid(a:4, b:8) { ... }: core id = mixed radix, first name slowest. Buffers may also be declared in the kernel scope,
/// before the nests (Kernel::scope): one instance for the whole kernel run.
struct Nest {
  std::vector<GridDim> grid;
  Block body;
  bool operator==(const Nest&) const = default;
  int32_t cores() const;
};

struct Kernel {
  std::string name;
  std::vector<Symbol> formals;
  std::vector<Scalar> scalars;
  int32_t cores = 1;
  std::vector<Range> ranges;    ///< all ranges of all nests; a range belongs to the nest and block where it stands
  std::vector<Buffer> buffers;  ///< all buffers
  std::vector<Id> scope;        ///< buffers declared in the kernel scope
  std::vector<Nest> nests;
  bool operator==(const Kernel&) const = default;
};

struct Call {
  Id kernel = none;
  std::vector<Id> symbols;  ///< per formal, a Program symbol of equal format and geometry; the view is the formal's
  std::vector<Id> scalars;  ///< per kernel scalar, a Program scalar
  Id loc = none;
  bool operator==(const Call&) const = default;
};

struct Program {
  std::vector<Symbol> symbols;
  std::vector<Scalar> scalars;
  std::vector<Loc> locs;
  std::vector<Kernel> kernels;
  std::vector<Call> calls;
  bool operator==(const Program&) const = default;
};

}  // namespace spyre::program
