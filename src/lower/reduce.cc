// The reduce form: a Reduce of any shape. Loops over what is kept; inside, loops over what is reduced, a tile at a
// time, with the state in LX.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "lower/element_program.h"
#include "lower/tile_loops.h"
#include "plan/rows.h"
#include "program/vector_rules.h"

namespace spyre::lower {

using program::Monoid;
using program::Reg;
using program::VecExpr;
using program::VecOp;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// What state `s` of a monoid is before anything is reduced.
VecExpr neutral(Monoid monoid, int s, Reg type) {
  const bool integers = type == Reg::i32;
  constexpr int64_t least = std::numeric_limits<int32_t>::min(), most = std::numeric_limits<int32_t>::max();
  const auto of = [&](double f, int64_t i) { return integers ? integer(i) : number(f); };
  switch (monoid) {
    case Monoid::sum:
    case Monoid::any:
      return of(0, 0);
    case Monoid::prod:
    case Monoid::all:
      return of(1, 1);
    case Monoid::max:
      return of(-infinity, least);
    case Monoid::min:
      return of(infinity, most);
    case Monoid::argmax:
      return s == 1 ? integer(-1) : of(-infinity, least);
    case Monoid::argmin:
      return s == 1 ? integer(-1) : of(infinity, most);
    case Monoid::welford:
      return number(0);
    case Monoid::logsumexp:
      return number(s == 0 ? -infinity : 0);
  }
  fail(Fault::program, "an unknown monoid");
}

class ReduceKernel {
 public:
  ReduceKernel(const Context& context, const plan::KernelPlan& kernel)
      : context_(context),
        kernel_(kernel),
        shape_(shape_of(context, kernel)),
        node_(shape_.axes.nodes[0]),
        reduce_(std::get<graph::Reduce>(context.graph.nodes[node_.node].kind)),
        loops_(shape_.axes, kernel, shape_.align),
        builder_(context.graph.nodes[node_.node].loc.op.empty() ? "reduce" : context.graph.nodes[node_.node].loc.op,
                 loops_.cores()),
        elements_(builder_, context, shape_.axes, emitted_) {}

  Emitted run() {
    builder_.loc(context_.graph.nodes[node_.node].loc);
    loops_.open(builder_, context_.description.max_trips);
    std::vector<int> kept, reduced;
    for (size_t a = 0; a < shape_.axes.sizes.size(); ++a)
      if (!node_.reduced[a]) kept.push_back(static_cast<int>(a));
    for (const auto& d : node_.dims)
      for (const int a : d) {
        if (node_.reduced[a]) reduced.push_back(a);
        if (node_.reduced[a] && a != shape_.reduced && loops_.parts(a) > 1)
          fail(Fault::program, "a reduced axis without tiles is divided over cores");
      }
    loops_.run(kept, [&] {
      const Tile outer = state_tile();
      const std::vector<Format> formats = elements_.state_formats(0);
      std::vector<BufRef> states;
      for (size_t s = 0; s < formats.size(); ++s) {
        states.push_back(elements_.boxed(builder_.buffer(formats[s], outer.shape, kernel_.slots, "s"), outer));
        builder_.vector({builder_.ref(states[s].buffer)},
                        {neutral(reduce_.monoid, static_cast<int>(s), register_of(formats[s]))});
      }
      loops_.run(reduced, [&] { step(states, reduced); });
      const Id grid = loops_.grid(shape_.reduced);
      const auto finish = [&] {
        elements_.finish_reduce(0, states, outer, kernel_.slots);
        elements_.flush();
      };
      if (grid == none) return finish();
      combine(states, outer, grid);
      program::Compare first;
      first.a = coordinate(grid);
      first.b = constant(0);
      builder_.when({first}, finish);
    });
    emitted_.kernel = builder_.finish();
    emitted_.locs = builder_.locs();
    return std::move(emitted_);
  }

 private:
  static plan::ReduceShape shape_of(const Context& context, const plan::KernelPlan& kernel) {
    if (kernel.nodes.size() == 1) {
      auto shape = plan::reduce_shape(context.graph, context.plan.homes, kernel.nodes[0]);
      if (shape) return std::move(*shape);
    }
    fail(Fault::program, "these nodes are no kernel that reduces");
  }

  Reg register_of(Format format) const { return program::register_of(format); }
  bool picks() const { return reduce_.monoid == Monoid::argmax || reduce_.monoid == Monoid::argmin; }

  /// The tile of the states: its reduced dimensions have size 1.
  Tile state_tile() const {
    Tile t = loops_.tile(shape_.lane, shape_.reduced);
    for (size_t p = 0; p < t.axes.size(); ++p)
      if (node_.reduced[t.axes[p]]) t.shape[p] = 1;
    return t;
  }

  void step(const std::vector<BufRef>& states, const std::vector<int>& reduced) {
    const Tile tile = loops_.tile(shape_.lane, shape_.reduced);
    elements_.next_tile();
    ElementProgram::Value v = elements_.reduced_value(0, tile, kernel_.slots);
    const bool pred = reduce_.value.type == Reg::pred;
    if (!v.covered) {
      v.expr = builder_.use(elements_.materialize(0, std::move(v.expr), tile, false));
      if (pred) v.expr = apply(VecOp::ne, {std::move(v.expr), number(0)});
    }
    const int dim = tile.position(shape_.reduced);
    if (picks()) return pick(states, reduced, std::move(v.expr), dim);
    std::vector<VecExpr> init;
    for (const BufRef& s : states) {
      init.push_back(builder_.use(s));
      if (pred) init.back() = apply(VecOp::ne, {std::move(init.back()), number(0)});
    }
    builder_.reduce(reduce_.monoid, reduce_.trap, states, std::move(init), std::move(v.expr), dim);
  }

  /// The best of this tile against the best so far; of equals the one with the lowest index. NaN beats all.
  void pick(const std::vector<BufRef>& states, const std::vector<int>& reduced, VecExpr value, int dim) {
    const Tile outer = state_tile();
    const std::vector<Format> formats = elements_.state_formats(0);
    std::vector<BufRef> local;
    for (const Format f : formats) local.push_back(elements_.boxed(builder_.buffer(f, outer.shape, 1, "l"), outer));
    builder_.reduce(reduce_.monoid, false, local, {}, std::move(value), dim);
    // The index in all reduced dimensions, row-major, of position 0 of this tile.
    VecExpr index = builder_.use(local[1]);
    int64_t weight = 1;
    for (size_t i = reduced.size(); i-- > 0;) {
      const int a = reduced[i];
      if (a == shape_.reduced) index = apply(VecOp::mul, {std::move(index), integer(weight)});
      weight *= shape_.axes.sizes[a];
    }
    weight = 1;
    for (size_t i = reduced.size(); i-- > 0;) {
      const Id range = loops_.range(reduced[i]);
      if (range != none) {
        IntExpr base = start(range) * weight;
        index = apply(VecOp::add, {std::move(index), integer_of(std::move(base))});
      }
      weight *= shape_.axes.sizes[reduced[i]];
    }
    const VecExpr v = builder_.use(local[0]), best = builder_.use(states[0]), at = builder_.use(states[1]);
    const VecOp order = reduce_.monoid == Monoid::argmax ? VecOp::gt : VecOp::lt;
    VecExpr better = apply(order, {v, best}), equal = apply(VecOp::eq, {v, best});
    if (v.type == Reg::f32) {
      const VecExpr nan = apply(VecOp::is_nan, {v}), was = apply(VecOp::is_nan, {best});
      better = apply(VecOp::logical_or,
                     {std::move(better), apply(VecOp::logical_and, {nan, apply(VecOp::logical_not, {was})})});
      equal = apply(VecOp::logical_or, {std::move(equal), apply(VecOp::logical_and, {nan, was})});
    }
    VecExpr earlier = apply(VecOp::logical_or, {apply(VecOp::lt, {index, at}), apply(VecOp::lt, {at, integer(0)})});
    VecExpr wins = apply(VecOp::logical_or,
                         {std::move(better), apply(VecOp::logical_and, {std::move(equal), std::move(earlier)})});
    builder_.vector({states[0], states[1]},
                    {apply(VecOp::select, {wins, v, best}), apply(VecOp::select, {wins, std::move(index), at})});
  }

  /// States of the cores that divide the reduced axis become those of all of it, on each of them.
  void combine(std::vector<BufRef>& states, const Tile& outer, Id grid) {
    // Parts gather along the first dimension, which must be free; a column of states is turned into a row for that.
    const bool turn = outer.shape[0] != 1;
    if (turn && (outer.shape.size() != 2 || outer.shape[1] != 1))
      fail(Fault::program, "states of this tile can't be gathered from cores");
    std::vector<int64_t> shape = outer.shape;
    if (turn) std::swap(shape[0], shape[1]);
    std::vector<int64_t> every = shape;
    every[0] = loops_.parts(shape_.reduced);
    std::vector<VecExpr> all;
    std::vector<BufRef> out;
    for (const BufRef& s : states) {
      const Format format = builder_.buffer_of(s.buffer).format;
      BufRef from = builder_.ref(s.buffer);
      if (turn) {
        const BufRef row = builder_.ref(builder_.buffer(format, shape, 1, "row"));
        program::Move move;
        move.to = row;
        move.from = from;
        move.from.transposed = true;
        builder_.step(std::move(move));
        from = row;
      }
      program::Ring ring;
      ring.kind = program::Ring::Kind::gather;
      ring.to = builder_.ref(builder_.buffer(format, every, 1, "every"));
      ring.from = from;
      ring.grid = grid;
      all.push_back(builder_.use(ring.to));
      builder_.step(std::move(ring));
      out.push_back(builder_.ref(builder_.buffer(format, shape, 1, "s")));
    }
    combine_rows(all, out);
    for (size_t s = 0; s < states.size(); ++s) {
      Id buffer = out[s].buffer;
      if (turn) {
        buffer = builder_.buffer(builder_.buffer_of(buffer).format, outer.shape, 1, "column");
        program::Move move;
        move.to = builder_.ref(buffer);
        move.from = out[s];
        move.from.transposed = true;
        builder_.step(std::move(move));
      }
      states[s] = elements_.boxed(buffer, outer);
    }
  }

  void combine_rows(const std::vector<VecExpr>& all, const std::vector<BufRef>& out) {
    const auto sum = [&](const BufRef& to, VecExpr value) {
      builder_.reduce(Monoid::sum, false, {to}, {}, std::move(value), 0);
    };
    const VecExpr result = builder_.use(out[0]);
    switch (reduce_.monoid) {
      case Monoid::argmax:
      case Monoid::argmin: {
        const bool max = reduce_.monoid == Monoid::argmax;
        builder_.reduce(max ? Monoid::max : Monoid::min, false, {out[0]}, {}, all[0], 0);
        VecExpr equal = apply(VecOp::eq, {all[0], result});
        if (result.type == Reg::f32)
          equal = apply(VecOp::logical_or,
                        {std::move(equal),
                         apply(VecOp::logical_and, {apply(VecOp::is_nan, {all[0]}), apply(VecOp::is_nan, {result})})});
        equal = apply(VecOp::logical_and, {std::move(equal), apply(VecOp::ge, {all[1], integer(0)})});
        builder_.reduce(Monoid::min, false, {out[1]}, {},
                        apply(VecOp::select, {std::move(equal), all[1], integer(std::numeric_limits<int32_t>::max())}),
                        0);
        return;
      }
      case Monoid::welford: {
        sum(out[2], all[2]);
        sum(out[1], apply(VecOp::mul, {all[0], all[2]}));  // not yet: the sum of all elements
        builder_.vector({out[0]}, {apply(VecOp::div, {builder_.use(out[1]), builder_.use(out[2])})});
        const VecExpr off = apply(VecOp::square, {apply(VecOp::sub, {all[0], result})});
        sum(out[1], apply(VecOp::fma, {all[2], off, all[1]}));
        return;
      }
      case Monoid::logsumexp: {
        builder_.reduce(Monoid::max, false, {out[0]}, {}, all[0], 0);
        VecExpr scaled = apply(VecOp::mul, {all[1], apply(VecOp::exp, {apply(VecOp::sub, {all[0], result})})});
        sum(out[1], apply(VecOp::select, {apply(VecOp::eq, {all[0], result}), all[1], std::move(scaled)}));
        return;
      }
      default: {
        VecExpr value = all[0];
        if (reduce_.value.type == Reg::pred) value = apply(VecOp::ne, {std::move(value), number(0)});
        builder_.reduce(reduce_.monoid, reduce_.trap, {out[0]}, {}, std::move(value), 0);
      }
    }
  }

  const Context& context_;
  const plan::KernelPlan& kernel_;
  plan::ReduceShape shape_;
  const plan::NodeAxes& node_;
  const graph::Reduce& reduce_;
  TileLoops loops_;
  Emitted emitted_;
  KernelBuilder builder_;
  ElementProgram elements_;
};

}  // namespace

std::vector<Emitted> emit_reduce(const Context& context, const plan::KernelPlan& kernel) {
  return one_kernel(ReduceKernel(context, kernel).run());
}

}  // namespace spyre::lower
