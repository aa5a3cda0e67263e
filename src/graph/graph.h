// The tensor graph: few, closed op kinds over typed values of symbolic sizes. ATen is imported onto it
// (graph/import.h); plan/ divides it into kernels. Views are never nodes: they fold into the strided references by
// which nodes read values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/formats.h"
#include "graph/size.h"
#include "program/tree.h"

namespace spyre::graph {

using base::HostType;
using program::Loc;
using program::Monoid;
using program::OnOutside;
using program::Reg;
using program::VecOp;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// An id as an index into its table.
constexpr size_t at(Id id) { return static_cast<size_t>(id); }

/// A tensor of the graph: an input of the launch, or one result of a node. Its storage is numbered as ATen numbers it:
/// element (i0, i1, ...) is storage element sum(stride x i). Produced values are dense (strides a permutation of
/// contiguous).
struct Value {
  std::string name;
  HostType type = HostType::f16;
  std::vector<Size> sizes, strides;  ///< strides in elements
  Id node = none;                    ///< producer, or none: an input
  int32_t result = 0;                ///< which of its results
};

/// A strided view of a value's storage, as ATen's as_strided: element (i...) is storage element offset + sum(stride x
/// i). Strides may be 0. For an input, offset 0 is the first element of the tensor that was passed (its own storage
/// offset is bound at the launch).
struct Ref {
  Id value = none;
  std::vector<Size> sizes, strides;
  Size offset;
  bool operator==(const Ref&) const = default;
};

/// A number known at launch: alpha, learning rate, epsilon, seed. Never part of a cache key.
struct Param {
  std::string name;
  bool is_float = true;
};

struct Symbol {
  std::string name;
  int64_t lo = 0, hi = INT64_MAX;  ///< values at which the graph may be instantiated
};

// ------------------------------------------------------------------------------------------------------- element
// expressions

struct Load;

/// A scalar expression, evaluated once per point of a node's space. Arithmetic is VecOp's (program/tree.h): f32, i32 or
/// predicate; values of int64 type are i32 with `trap` (leaving int32 stops the program), those of int32 wrap. Division
/// by zero of i32 stops the program. Elements of float types are read and written as f32, of integer types as i32, of
/// bool as pred. Leaves:
struct Expr {
  enum class Leaf : uint8_t {
    none,      ///< an operation: `op` on `args`; philox: `integer` is the word
    load,      ///< the element of loads[id] at this point
    constant,  ///< `number`, or `integer` when type is i32, or `integer` = 0 or 1 when type is pred
    size,      ///< `size`, as i32
    param,     ///< params[id]: f32 or i32
    iota,      ///< index along dimension id of the space, i32
  };
  Leaf leaf = Leaf::none;
  VecOp op = VecOp::add;
  Reg type = Reg::f32;
  bool trap = false;
  Id id = graph::none;
  double number = 0;
  int64_t integer = 0;
  Size size;
  std::vector<Expr> args;
  bool operator==(const Expr&) const = default;

  static Expr load(Id id, Reg type);
  static Expr f32(double number);
  static Expr i32(int64_t integer);
  static Expr pred(bool value);
  static Expr of_size(Size size);
  static Expr of_param(Id id, bool is_float);
  static Expr iota(int32_t dim);
  /// An operation with the type that follows from its arguments (program/vector_rules.h). Throws Error(program) when
  /// they don't fit.
  static Expr make(VecOp op, std::vector<Expr> args, bool trap = false);
  /// To f32 or i32, or to pred (x != 0); the expression itself when it has the type.
  static Expr cast(Expr x, Reg type, bool trap = false);
  static Expr philox(Expr seed, Expr offset, Expr index, int word);
};

/// The register type in which elements of a host type are read and written: f32, i32 or pred (bool). Throws Error(user)
/// for float64 and complex.
Reg register_of(HostType type);

/// How a node reads a tensor: `ref` has one dimension per dimension of the node's space (stride 0 = broadcast), plus
/// any number of data-dependent dimensions: index x stride is added to the offset.
struct Load {
  Ref ref;  ///< its sizes are those of the space
  struct Gather {
    Expr index;   ///< i32, over the same space and loads; negative indices are not wrapped here (import adds the size)
    Size bound;   ///< legal: 0 <= index < bound
    Size stride;  ///< storage elements
    OnOutside outside = OnOutside::trap;
    bool operator==(const Gather&) const = default;
  };
  std::vector<Gather> gathers;
  double fill = 0;  ///< for OnOutside::fill
  bool operator==(const Load&) const = default;
};

// --------------------------------------------------------------------------------------------------------------------
// nodes

/// results[r][point] = value[r](point), for every point of the space.
struct Map {
  std::vector<Size> space;
  std::vector<Load> loads;
  std::vector<Expr> value;
};
/// A monoid over some dimensions of the space, in ascending row-major order. Results have the other dimensions, one per
/// state of the monoid: argmax, argmin: value, index (row-major over the reduced dimensions, i32); welford: mean, m2,
/// count; logsumexp: max, sum; others one.
struct Reduce {
  std::vector<Size> space;
  std::vector<int32_t> dims;  ///< ascending
  Monoid monoid = Monoid::sum;
  bool trap = false;
  std::vector<Load> loads;
  Expr value;
};
/// Sum over the k dimensions of a x b, in f32 (i32 for integers: wraps, but stops the program when the result is
/// int64). Convolution: windows are overlapping references.
struct Contract {
  enum class Role : uint8_t { batch, m, n, k };
  std::vector<Size> space;
  std::vector<Role> roles;  ///< per dimension; results have the others than k, in order
  Load a, b;                ///< a's strides are 0 along n, b's along m
};
/// softmax(scale q k^T + mask) v per (batch, head). Grouped heads: q has G x as many as k, head h reads head h / G of k
/// and v. A fully masked row gives 0. The result is [B, H, Sq, Dv].
struct Attention {
  Ref q, k, v;                  ///< [B, H, Sq, D], [B, Hk, Sk, D], [B, Hk, Sk, Dv]
  std::optional<Ref> mask;      ///< [B, H, Sq, Sk], additive float or bool (true = keep); strides may be 0
  bool causal = false;          ///< top-left aligned: key <= query
  Expr scale;                   ///< constant or param
  bool with_logsumexp = false;  ///< second result f32 [B, H, Sq]; of a fully masked row -inf
};
/// Boxes written into a base: cat, pad, slice_scatter, cache updates at known places. Pieces do not overlap, or the
/// last wins. Base, pieces and result have one type.
struct Place {
  std::optional<Ref> base;  ///< of the result's sizes; none: `fill` everywhere
  double fill = 0;
  struct Piece {
    Ref from;
    std::vector<Size> start, step;  ///< per dimension of the result: from's index i lands at start + step x i
  };
  std::vector<Piece> pieces;
  std::vector<Size> sizes;
};
/// result = base with, for every point of the space, element (target dimensions' index) combined with `value`.
struct Scatter {
  enum class Mode : uint8_t { set, add, prod, max, min };
  Ref base;
  Mode mode = Mode::set;  ///< set: with duplicates, the last in row-major order wins
  std::vector<Size> space;
  std::vector<Load> loads;
  Expr value;
  struct Target {
    Expr index;                           ///< i32: along this dimension of the result
    OnOutside outside = OnOutside::trap;  ///< trap or skip
  };
  std::vector<Target> targets;  ///< one per dimension of the base (iota for the ones that aren't data-dependent)
};
/// Inclusive scan along one dimension. Results have the space's sizes, one per state of the monoid: argmax/argmin give
/// value and index (cummax, cummin: of equals the last, as torch does), logsumexp max and sum.
struct Scan {
  std::vector<Size> space;
  int32_t dim = 0;
  Monoid monoid = Monoid::sum;
  bool trap = false;
  std::vector<Load> loads;
  Expr value;
};
/// Values and i64 indices along one dimension, stable; NaN above every number; k: only the first k of the sorted row.
struct Sort {
  Ref from;
  int32_t dim = 0;
  bool descending = false;
  std::optional<Size> k;
};

using Kind = std::variant<Map, Reduce, Contract, Attention, Place, Scatter, Scan, Sort>;

struct Node {
  Kind kind;
  std::vector<Id> results;  ///< value ids
  Loc loc;
};

/// A graph. Nodes are in execution order; every value is defined before it is read.
struct Graph {
  std::vector<Symbol> symbols;
  std::vector<Param> params;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Id> inputs;    ///< value ids, in the order of the launch's tensors
  std::vector<Ref> outputs;  ///< what the launch returns: whole results of nodes, each once, in the order asked for
  struct Mutation {
    Id input =
        none;  ///< value id of an input; its elements become those of `value` after everything has read the old ones
    Ref value;
  };
  std::vector<Mutation> mutations;
};

/// Sizes of an instance as numbers. Throws Error(program) for one with symbols.
int64_t number(const Size& size);
std::vector<int64_t> numbers(std::span<const Size> sizes);

/// The whole of value `id`, and dense row-major strides (elements) of these sizes.
Ref whole(const Graph& graph, Id id);
std::vector<Size> contiguous(std::span<const Size> sizes);
/// Number of results of a node, and the sizes of result r.
int result_count(const Kind& kind);
std::vector<Size> result_sizes(const Kind& kind, int r);
/// A Map whose points are the elements of the reference: the tensor copied as it is.
Map copy_of(const Ref& ref, HostType type);
/// Loads that expressions name, of a Map, Reduce, Scan or Scatter; empty for the others.
std::span<const Load> loads_of(const Kind& kind);
/// Whether `ref`, one of reads(kind), is taken by an index.
bool gathered(const Kind& kind, const Ref* ref);
/// Every reference by which a node reads, in order: a, b; q, k, v, mask; base, then loads or pieces.
std::vector<const Ref*> reads(const Kind& kind);
std::vector<Ref*> reads(Kind& kind);
/// "map", "reduce", ...
std::string_view kind_name(const Kind& kind);

/// Throws Error(program) naming node and op source for the first broken rule: ids, order, ranks, types of expressions,
/// references that leave their value (checked where sizes are constant; else at instantiation), duplicate names.
void verify(const Graph& graph);

/// Drops nodes whose results nobody reads, renumbering nodes and values. Inputs, params and symbols stay.
void remove_dead_nodes(Graph& graph);

/// Text for people and tests (README.md shows the form); parse(print(g)) is g.
std::string print(const Graph& graph);
/// Throws Error(program) with line and column.
Graph parse(std::string_view text);

/// The graph at these symbol values: every Size a constant. Checks symbol bounds and that every reference stays inside
/// its value; Error(user) names node and sizes.
Graph instantiate(const Graph& graph, std::span<const int64_t> symbols);

/// Content hash (hex) of everything but names and locs: equal graphs have equal hashes in every process.
std::string content_hash(const Graph& graph);

}  // namespace spyre::graph
